// Package meter tells what a slice of a benchmark run has cost: CPU seconds of processes and of a whole PostgreSQL
// server.
//
// It owns the reading of /proc, on Linux only, and the judgement whether a slice was disturbed: whether somebody who
// does not belong to the run took more of the machine than MaxOthers. It refuses to know what is measured, and how
// results are shown.
//
// A cost is the difference of two readings. Nothing is sampled, so nothing between them is missed, and processes that
// ended in between count (their parent carries their time). A number that the system does not give is an error, never a
// zero.
package meter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Meter reads what this machine and its processes have used.
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

// Source is something that takes CPU and belongs to the run. Two sources of one slice must not count the same process.
type Source struct {
	name string
	read func() (time.Duration, error)
}

// CPU is how much the source has used since it began.
func (s Source) CPU() (time.Duration, error) {
	used, err := s.read()
	if err != nil {
		return 0, fmt.Errorf("CPU of %s: %w", s.name, err)
	}
	return used, nil
}

// Process is one process, all its threads, none of its children.
func (m *Meter) Process(name string, pid int) Source {
	return Source{name, func() (time.Duration, error) {
		times, err := m.process(pid)
		return times.own, err
	}}
}

// Ended is the children of a process that have ended and were waited for. Of the harness itself: load generators that
// began and ended within the slice.
func (m *Meter) Ended(name string, pid int) Source {
	return Source{name, func() (time.Duration, error) {
		times, err := m.process(pid)
		return times.reaped, err
	}}
}

// Tree is a process with all its descendants, those that have ended as well. Of a postmaster: the PostgreSQL server.
func (m *Meter) Tree(name string, pid int) Source {
	return Source{name, func() (time.Duration, error) { return m.tree(pid) }}
}

// treeReadings bounds how often a tree is read again because a child of it has ended meanwhile.
const treeReadings = 5

// tree adds up a process and its descendants. A child that ends while we read has its time moved to its parent: it
// would be counted twice or not at all. So the parent's account is looked at before and after.
func (m *Meter) tree(root int) (time.Duration, error) {
	var sum time.Duration
	for range treeReadings {
		before, err := m.process(root)
		if err != nil {
			return 0, err
		}
		all, err := m.processes()
		if err != nil {
			return 0, err
		}
		after, err := m.process(root)
		if err != nil {
			return 0, err
		}
		sum = after.own + after.reaped
		for _, pid := range below(all, root) {
			sum += all[pid].own + all[pid].reaped
		}
		if before.reaped == after.reaped {
			break
		}
	}
	return sum, nil
}

// kernelThreads is the parent of all threads of the kernel, and its process id wherever it can be seen.
const kernelThreads = 2

// kernel adds up what the kernel's own threads have used. They work for every process, mostly for us: flushing our
// commits to the disk costs a tenth of a core at some thousand a second.
func (m *Meter) kernel() (time.Duration, error) {
	if name, _ := fs.ReadFile(m.proc, "2/comm"); string(name) != "kthreadd\n" {
		return 0, nil // inside of a container, where they can't be seen and are others
	}
	all, err := m.processes()
	if err != nil {
		return 0, err
	}
	sum := all[kernelThreads].own
	for pid := range all {
		if all[pid].parent == kernelThreads {
			sum += all[pid].own
		}
	}
	return sum, nil
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
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
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
