package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// batch is how many intents a life is given at most.
const batch = 60

// shop is the parent of one caller. Its intents go through as many lives of the caller as it takes.
type shop struct {
	description description
	errands     map[int]*errand
	progress    func(told int)

	mu     sync.Mutex
	kills  map[boundary]int
	lives  int
	broken []string // errors that a caller should not have met
	stderr strings.Builder
}

// run pays all. It ends when each intent was told.
func (s *shop) run(ctx context.Context) error {
	for left := s.left(); len(left) > 0; left = s.left() {
		if err := s.life(ctx, left[:min(batch, len(left))]); err != nil {
			return fmt.Errorf("%s: %w\n%s", s.description.Kind, err, s.stderr.String())
		}
		if len(s.broken) > 0 {
			return fmt.Errorf("%s: %s", s.description.Kind, s.broken[0])
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// left are the intents that were not told yet, in order.
func (s *shop) left() []*errand {
	var left []*errand
	for _, index := range slices.Sorted(maps.Keys(s.errands)) {
		if e := s.errands[index]; e.told == "" {
			left = append(left, e)
		}
	}
	return left
}

// life is one process of the caller: until it has done what it was given, or until it reaches a boundary.
func (s *shop) life(ctx context.Context, given []*errand) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.description)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = &s.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.lives++
	var list strings.Builder
	for _, e := range given {
		fmt.Fprintf(&list, "%d %s %s\n", e.index, e.token, e.next())
	}
	// A child that ends at once says why by itself.
	_, _ = io.WriteString(stdin, list.String()+lastLine+"\n")
	killed := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if s.hear(lines.Text()) && !killed {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				return err
			}
		}
	}
	err = cmd.Wait()
	_ = stdin.Close()
	var exit *exec.ExitError
	if killed && errors.As(err, &exit) {
		return nil
	}
	return err
}

// hear takes one line of the child. It reports whether the child is at a boundary, and is to be killed there.
func (s *shop) hear(line string) (kill bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "at":
		where, index, _ := strings.Cut(rest, " ")
		if e := s.errand(index); e != nil && len(e.kills) > 0 {
			s.kills[boundary(where)]++
			e.kills = e.kills[1:]
			return true
		}
	case "told":
		index, what, _ := strings.Cut(rest, " ")
		if e := s.errand(index); e != nil && what != "" {
			e.told = what
			s.progress(1)
			return false
		}
	case "open": // the next life asks again
		return false
	}
	s.broken = append(s.broken, line)
	return false
}

func (s *shop) errand(text string) *errand {
	index, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return s.errands[index]
}
