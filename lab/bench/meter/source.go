package meter

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// Source is something that takes CPU and belongs to the run. Two sources of one slice must not count the same process.
type Source struct {
	name string
	read func() (time.Duration, error)
}

// Name is what the slice's CPU is found under.
func (s Source) Name() string { return s.name }

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

// gone tells whether a process has ended before, or while, it was read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
