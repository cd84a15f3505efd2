package meter

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ, which is 100 on every system that Go's ports for Linux run on.
const tick = 10 * time.Millisecond

// processTimes are the times of one line of /proc/<pid>/stat; proc_pid_stat(5).
type processTimes struct {
	parent int
	own    time.Duration // user and system, of all threads
	reaped time.Duration // of the children that have ended and were waited for, and of theirs
}

// parseProcess reads /proc/<pid>/stat. The second field is the program's name in parentheses and may contain anything,
// also blanks, parentheses and line breaks, so the rest begins behind the last parenthesis.
func parseProcess(text []byte) (processTimes, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return processTimes{}, errors.New("stat of a process: no name in parentheses")
	}
	fields := strings.Fields(string(text[end+1:]))
	const parent, user, system, childrenUser, childrenSystem = 1, 11, 12, 13, 14
	if len(fields) <= childrenSystem {
		return processTimes{}, fmt.Errorf("stat of a process: %d fields behind the name", len(fields))
	}
	var numbers [childrenSystem + 1]int64
	for _, field := range []int{parent, user, system, childrenUser, childrenSystem} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return processTimes{}, fmt.Errorf("stat of a process: field %d: %w", field+3, err)
		}
		numbers[field] = n
	}
	return processTimes{
		parent: int(numbers[parent]),
		own:    time.Duration(numbers[user]+numbers[system]) * tick,
		reaped: time.Duration(numbers[childrenUser]+numbers[childrenSystem]) * tick,
	}, nil
}

// machineTimes is how long the cores have idled, all together, since the machine was started.
//
// Busy time is taken as what is left, not as the sum of the other columns: those are estimated by whom the timer
// interrupt meets, and miss half of what a process takes that works in bursts shorter than 10 ms, as a database under
// load does. The idle time is measured. Time that the hypervisor took away (steal) is so counted as busy: it was not
// ours.
type machineTimes struct {
	cores int
	idle  time.Duration // idle and waiting for a disk
}

// parseMachine reads /proc/stat; proc_stat(5).
func parseMachine(text []byte) (machineTimes, error) {
	var m machineTimes
	const idle, waiting = 4, 5
	seen := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu"):
		case fields[0] != "cpu":
			m.cores++
		case len(fields) <= waiting:
			return machineTimes{}, fmt.Errorf("stat of the machine: %d columns", len(fields))
		default:
			for _, column := range []int{idle, waiting} {
				ticks, err := strconv.ParseInt(fields[column], 10, 64)
				if err != nil {
					return machineTimes{}, fmt.Errorf("stat of the machine: column %d: %w", column, err)
				}
				m.idle += time.Duration(ticks) * tick
			}
			seen = true
		}
	}
	if !seen || m.cores == 0 {
		return machineTimes{}, errors.New("stat of the machine: no cores in it")
	}
	return m, nil
}

// parseRun reads /proc/<pid>/schedstat: nanoseconds on a core, of the main thread alone.
func parseRun(text []byte) (time.Duration, error) {
	first, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("schedstat of a process: %w", err)
	}
	return time.Duration(ns), nil
}
