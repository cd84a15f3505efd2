package meter

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// Meter reads what this machine and its processes have used. It is safe for concurrent use.
type Meter struct {
	proc   fs.FS // /proc
	now    func() time.Time
	window time.Duration // over which Quiet looks
}

// New is the meter of this machine. It fails where there is no /proc.
func New() (*Meter, error) {
	m := &Meter{proc: os.DirFS("/proc"), now: time.Now, window: quietWindow}
	if _, err := m.machine(); err != nil {
		return nil, fmt.Errorf("meter CPU, which takes Linux: %w", err)
	}
	return m, nil
}

func (m *Meter) machine() (machineTimes, error) {
	text, err := fs.ReadFile(m.proc, "stat")
	if err != nil {
		return machineTimes{}, err
	}
	return parseMachine(text)
}

// process reads the times of one process. /proc/<pid>/stat counts in steps of 10 ms. That adds up for a server of many
// processes, so the main thread's finer clock is taken where it says more, which is where there is no other thread.
// Both only grow, so the greater of the two does, too.
func (m *Meter) process(pid int) (processTimes, error) {
	dir := strconv.Itoa(pid)
	text, err := fs.ReadFile(m.proc, dir+"/stat")
	if err != nil {
		return processTimes{}, err
	}
	times, err := parseProcess(text)
	if err != nil {
		return processTimes{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if text, err := fs.ReadFile(m.proc, dir+"/schedstat"); err == nil { // a kernel may be built without it
		if run, err := parseRun(text); err == nil {
			times.own = max(times.own, run)
		}
	}
	return times, nil
}

// processes reads all that there are. One that ends while we read is left out.
func (m *Meter) processes() (map[int]processTimes, error) {
	entries, err := fs.ReadDir(m.proc, ".")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make(map[int]processTimes, len(entries))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		times, err := m.process(pid)
		switch {
		case err == nil:
			all[pid] = times
		case !gone(err):
			return nil, err
		}
	}
	return all, nil
}

// below lists the descendants of a process among all, without itself.
func below(all map[int]processTimes, root int) []int {
	children := map[int][]int{}
	for pid, times := range all {
		children[times.parent] = append(children[times.parent], pid)
	}
	found := append([]int(nil), children[root]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
