package lessons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// window is one psql on a terminal, started by the page's own command. What it shows is compared byte for byte, prompts
// included; only the spaces at the ends of lines are not.
type window struct {
	command  *exec.Cmd
	terminal *os.File
	pid      uint32 // of the server's process

	mu    sync.Mutex
	shown string // since the last statement was entered
	gone  error
	at    string // the prompt of a window in which no statement runs
	typed string // what the terminal has echoed of the statement
}

var atPrompt = regexp.MustCompile(`(?:^|\n)([A-Z][=!][*!]?> )$`)

// openWindow runs a page's command. -n is psql without line editing, which would write escape sequences.
func openWindow(
	ctx context.Context, url, command, name string, pidOf func(string) (uint32, error),
) (*window, error) {
	application := "window " + name
	line := strings.ReplaceAll(command, "PROMPT1='A", "PROMPT1='"+name)
	w := &window{command: exec.Command("bash", "-c", "exec env "+line+" -n -P pager=off")}
	w.command.Env = append(os.Environ(), "DATABASE_URL="+url, "PGAPPNAME="+application, "TERM=dumb", "LC_ALL=C.UTF-8")
	var err error
	if w.terminal, err = onTerminal(w.command); err != nil {
		return nil, err
	}
	go w.read()
	if err := w.until(ctx, func(shown string) bool { return atPrompt.MatchString(shown) }); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.at = atPrompt.FindStringSubmatch(w.shown)[1]
	w.mu.Unlock()
	w.pid, err = pidOf(application)
	return w, err
}

func (w *window) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := w.terminal.Read(buffer)
		w.mu.Lock()
		w.shown += strings.ReplaceAll(string(buffer[:n]), "\r", "")
		w.gone = err
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// start returns at once. It types line by line, and each time waits for the second prompt: a terminal shows at once
// what is typed ahead.
func (w *window) start(ctx context.Context, statement string) error {
	w.mu.Lock()
	w.shown, w.typed = "", ""
	w.mu.Unlock()
	lines := strings.Split(statement, "\n")
	for i, line := range lines {
		if _, err := w.terminal.WriteString(line + "\n"); err != nil {
			return fmt.Errorf("type: %w", err)
		}
		w.typed += line + "\n"
		if i < len(lines)-1 {
			w.typed += strings.Repeat(" ", len(w.at))
		}
		if err := w.until(ctx, func(shown string) bool { return strings.HasPrefix(shown, w.typed) }); err != nil {
			return fmt.Errorf("the terminal does not show what was typed: %w", err)
		}
	}
	return nil
}

// output is what psql has printed of the statement that was started.
func (w *window) output() (text string, finished bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := atPrompt.FindStringSubmatchIndex(w.shown)
	if found == nil {
		return "", false, w.gone
	}
	w.at = w.shown[found[2]:]
	return strings.TrimPrefix(w.shown[:found[2]], w.typed), true, nil
}

func (w *window) close() {
	_ = w.command.Process.Kill()
	_ = w.command.Wait()
	_ = w.terminal.Close()
}

// until waits for what the terminal is to show.
func (w *window) until(ctx context.Context, holds func(shown string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		w.mu.Lock()
		shown, gone := w.shown, w.gone
		w.mu.Unlock()
		if holds(shown) {
			return nil
		}
		if gone != nil {
			return fmt.Errorf("psql has ended (%w); it said %q", gone, shown)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), fmt.Errorf("it shows %q", shown))
		}
	}
}
