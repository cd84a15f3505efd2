package meter

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// staged is a machine whose times a test sets.
type staged struct {
	files fstest.MapFS
	clock time.Time
	// onRead, if set, is asked before each read of a file.
	onRead func(name string)
}

func newStaged() *staged { return &staged{files: fstest.MapFS{}, clock: time.Unix(0, 0)} }

func (s *staged) meter() *Meter {
	return &Meter{proc: s, now: func() time.Time { return s.clock }, window: time.Millisecond}
}

func (s *staged) Open(name string) (fs.File, error) {
	if s.onRead != nil {
		s.onRead(name)
	}
	return s.files.Open(name)
}

func (s *staged) set(name, text string) { s.files[name] = &fstest.MapFile{Data: []byte(text)} }

// process sets the times of one, in hundredths of a second.
func (s *staged) process(pid, parent, own, reaped int) {
	s.set(strconv.Itoa(pid)+"/stat", strconv.Itoa(pid)+" (a b) c) S "+strconv.Itoa(parent)+" 1 1 0 -1 0 0 0 0 0 "+
		strconv.Itoa(own)+" 0 "+strconv.Itoa(reaped)+" 0 20 0 1 0 0")
}

func (s *staged) end(pid int) { delete(s.files, strconv.Itoa(pid)+"/stat") }

// idle sets how long the two cores have idled, in hundredths of a second.
func (s *staged) idle(hundredths int) {
	s.set("stat", "cpu  1 2 3 "+strconv.Itoa(hundredths-5)+
		" 5 0 0 0 0 0\ncpu0 1 2 3 4 5\ncpu1 1 2 3 4 5\nintr 1\nctxt 2\n")
}

func begin(t *testing.T, m *Meter, sources ...Source) *Started {
	t.Helper()
	started, err := m.Begin(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func (s *Started) mustEnd(t *testing.T) Slice {
	t.Helper()
	slice, err := s.End()
	if err != nil {
		t.Fatal(err)
	}
	return slice
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestOthersAreWhatIsLeftOfTheMachine(t *testing.T) {
	t.Parallel()
	s := newStaged()
	s.idle(1000)
	s.set("2/comm", "kthreadd\n")
	s.process(2, 0, 1, 0)
	s.process(30, 2, 500, 0)
	s.process(7, 1, 100, 50)
	s.process(8, 7, 20, 0)
	s.process(9, 1, 40, 4)
	m := s.meter()
	started := begin(t, m, m.Tree("postgresql", 7), m.Process("api", 9), m.Ended("load", 9))

	s.clock = s.clock.Add(10 * time.Second) // 20 s of two cores
	s.idle(1000 + 400)                      // 16 s busy
	s.process(30, 2, 530, 0)                // the disk: 0.3 s
	s.process(7, 1, 300, 80)                // the server 2 s, an ended child 0.3 s,
	s.process(8, 7, 220, 0)                 // a session 2 s
	s.process(9, 1, 340, 304)               // the API 3 s, the load generators 3 s
	slice := started.mustEnd(t)

	near(t, "wall", slice.Wall, 10)
	near(t, "busy", slice.Busy, 16)
	near(t, "PostgreSQL", slice.CPU["postgresql"], 4.3)
	near(t, "the API", slice.CPU["api"], 3)
	near(t, "the load", slice.CPU["load"], 3)
	near(t, "the kernel", slice.Kernel, 0.3)
	near(t, "others", slice.Others, 5.4)
	near(t, "others' cores", slice.OthersCores(), 0.54)
	if !slice.Disturbed() {
		t.Error("half a core went to others, and the slice is not disturbed")
	}
}

func TestSliceIsDisturbedFromAQuarterOfACoreOn(t *testing.T) {
	t.Parallel()
	for others, want := range map[float64]bool{0: false, 2.4: false, 2.5: false, 2.6: true, 20: true} {
		if got := (Slice{Wall: 10, Others: others}).Disturbed(); got != want {
			t.Errorf("others took %v s of 10 s: disturbed is %t", others, got)
		}
	}
}

func TestOthersNeverTakeLessThanNothing(t *testing.T) {
	t.Parallel()
	s := newStaged()
	s.idle(100)
	s.process(9, 1, 0, 0)
	m := s.meter()
	started := begin(t, m, m.Process("api", 9))
	s.clock = s.clock.Add(time.Second)
	s.idle(250)            // half a second busy, by this clock
	s.process(9, 1, 51, 0) // and a tick more, by that
	near(t, "others", started.mustEnd(t).Others, 0)
}

// A child that ends between the look at its parent and the look at itself is in neither account, or in both.
func TestChildThatEndsWhileItIsReadCountsOnce(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]string{"before its own account is read": "8/stat", "after it": "9/stat"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStaged()
			s.process(7, 1, 100, 0)
			s.process(8, 7, 40, 0)
			s.process(9, 7, 1, 0)
			s.onRead = func(file string) {
				if file == ended {
					s.onRead = nil
					s.end(8)
					s.process(7, 1, 100, 40)
				}
			}
			got, err := s.meter().Tree("postgresql", 7).CPU()
			if want := 1410 * time.Millisecond; err != nil || got != want {
				t.Errorf("%v (%v), want %v", got, err, want)
			}
		})
	}
}

func TestSingleThreadedProcessIsReadByTheFinerClock(t *testing.T) {
	t.Parallel()
	s := newStaged()
	s.process(7, 1, 10, 0)
	s.set("7/schedstat", "104999999 5 6\n")
	m := s.meter()
	if got, err := m.Process("p", 7).CPU(); err != nil || got != 104999999 {
		t.Errorf("%v (%v), want 104.999999ms", got, err)
	}
	s.set("7/schedstat", "4999999 5 6\n") // the main thread of many
	if got, err := m.Process("p", 7).CPU(); err != nil || got != 100*time.Millisecond {
		t.Errorf("%v (%v), want 100ms", got, err)
	}
}

func TestProcessThatHasEndedIsNamed(t *testing.T) {
	t.Parallel()
	s := newStaged()
	s.idle(100)
	s.process(9, 1, 0, 0)
	m := s.meter()
	started := begin(t, m, m.Process("api", 9))
	s.end(9)
	if slice, err := started.End(); err == nil || !strings.Contains(err.Error(), "api") {
		t.Errorf("%+v (%v), want an error that names the API", slice, err)
	}
	if _, err := m.Begin(m.Tree("postgresql", 9)); err == nil || !strings.Contains(err.Error(), "postgresql") {
		t.Errorf("%v, want an error that names PostgreSQL", err)
	}
}

// noisy lets others take a share of one core at each look, the last one for ever. (Two looks make a window of one
// second.)
func noisy(shares ...float64) *staged {
	s := newStaged()
	idle, looks := 100.0, 0
	s.idle(100)
	s.onRead = func(name string) {
		if name != "stat" {
			return
		}
		if looks++; looks%2 == 0 {
			share := shares[min(looks/2, len(shares))-1]
			s.clock = s.clock.Add(time.Second)
			idle += 100 * (2 - share)
			s.idle(int(math.Round(idle)))
		}
	}
	return s
}

func TestMachineIsQuietOnceOthersAre(t *testing.T) {
	t.Parallel()
	s := noisy(1.5, 0.4, 0.2, 0.05, 2)
	if err := s.meter().Quiet(t.Context(), time.Minute); err != nil || s.clock != time.Unix(4, 0) {
		t.Errorf("%v after %v, want the end of the fourth window", err, s.clock.Sub(time.Unix(0, 0)))
	}
}

func TestWaitForAQuietMachineEnds(t *testing.T) {
	t.Parallel()
	s := noisy(0.2)
	if err := s.meter().Quiet(t.Context(), 5*time.Second); err != nil || s.clock.After(time.Unix(5, 0)) {
		t.Errorf("%v after %v, want an end by the limit", err, s.clock.Sub(time.Unix(0, 0)))
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	m := noisy(0.2).meter()
	m.window = time.Hour
	if err := m.Quiet(ctx, time.Minute); !errors.Is(err, stop) {
		t.Errorf("%v, want that it was stopped", err)
	}
}
