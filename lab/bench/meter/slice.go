package meter

import (
	"context"
	"fmt"
	"time"
)

// MaxOthers is how much of a core others may take from a slice. One of which they took more is to be dropped.
const MaxOthers = 0.25

// Started is a slice that has begun and not ended.
type Started struct {
	meter   *Meter
	sources []Source
	begin   reading
}

// reading is one look at everything.
type reading struct {
	at      time.Time
	machine machineTimes
	kernel  time.Duration
	cpu     []time.Duration // by source
}

// Slice is what a part of a run has cost. All are seconds.
type Slice struct {
	Wall   float64
	CPU    map[string]float64 // by the name of the source
	Kernel float64            // CPU of the kernel's own threads, such as those that write to the disk
	Busy   float64            // CPU of all cores
	Others float64            // what is left of Busy: CPU that somebody else took
}

// OthersCores is how many cores the others kept busy.
func (s Slice) OthersCores() float64 {
	if s.Wall <= 0 {
		return 0
	}
	return s.Others / s.Wall
}

// Disturbed tells whether the slice is to be dropped.
func (s Slice) Disturbed() bool { return s.OthersCores() > MaxOthers }

// Begin begins a slice of which the sources are to be told apart; all else are others. The processes must exist
// already, and must still when it ends. The process that calls is one to name: m.Process("harness", os.Getpid()).
func (m *Meter) Begin(sources ...Source) (*Started, error) {
	begin, err := m.read(sources)
	if err != nil {
		return nil, fmt.Errorf("begin slice: %w", err)
	}
	return &Started{meter: m, sources: sources, begin: begin}, nil
}

// End tells what was used since Begin.
func (s *Started) End() (Slice, error) {
	end, err := s.meter.read(s.sources)
	if err != nil {
		return Slice{}, fmt.Errorf("end slice: %w", err)
	}
	wall := end.at.Sub(s.begin.at)
	idle := end.machine.idle - s.begin.machine.idle
	slice := Slice{
		Wall:   wall.Seconds(),
		CPU:    map[string]float64{},
		Kernel: max(0, (end.kernel - s.begin.kernel).Seconds()), // threads of the kernel that end leave no account
		Busy:   max(0, float64(end.machine.cores)*wall.Seconds()-idle.Seconds()),
	}
	for i, source := range s.sources {
		slice.CPU[source.name] += (end.cpu[i] - s.begin.cpu[i]).Seconds()
	}
	ours := slice.Kernel
	for _, used := range slice.CPU {
		ours += used
	}
	slice.Others = max(0, slice.Busy-ours) // the clocks are not one: idle time counts in steps of 10 ms
	return slice, nil
}

// read looks at the sources first and at the machine last, in both readings, so that all spans are about equally long.
func (m *Meter) read(sources []Source) (r reading, err error) {
	for _, source := range sources {
		used, err := source.CPU()
		if err != nil {
			return reading{}, err
		}
		r.cpu = append(r.cpu, used)
	}
	if r.kernel, err = m.kernel(); err != nil {
		return reading{}, fmt.Errorf("CPU of the kernel: %w", err)
	}
	if r.machine, err = m.machine(); err != nil {
		return reading{}, err
	}
	r.at = m.now()
	return r, nil
}

const (
	// QuietOthers is how much of a core others may take on a machine that is called quiet.
	QuietOthers = 0.1
	// quietWindow is long enough for the clock's steps of 10 ms on each core to stay well below QuietOthers.
	quietWindow = 500 * time.Millisecond
)

// Quiet waits, at most for limit, until the others have taken less than QuietOthers for half a second. It looks at
// least once. What the sources take does not count; call it while they idle all the same.
func (m *Meter) Quiet(ctx context.Context, limit time.Duration, sources ...Source) error {
	for deadline := m.now().Add(limit); ; {
		started, err := m.Begin(sources...)
		if err != nil {
			return fmt.Errorf("wait for a quiet machine: %w", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(m.window):
		}
		slice, err := started.End()
		if err != nil {
			return fmt.Errorf("wait for a quiet machine: %w", err)
		}
		if slice.OthersCores() < QuietOthers || !m.now().Add(m.window).Before(deadline) {
			return nil
		}
	}
}
