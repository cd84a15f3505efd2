package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"payonce/demo/embeddedpg"
)

// program is a process that the demo has started.
type program struct {
	name      string // for people
	cmd       *exec.Cmd
	said      *lastWords
	serving   <-chan struct{} // closed when it serves
	ended     <-chan error
	stopLimit time.Duration // how long it may take to stop
}

// startProgram starts a command. The word on its stdout says that it serves.
func startProgram(
	name string, cmd *exec.Cmd, word string, stderr io.Writer, stopLimit time.Duration,
) (p *program, err error) {
	serving := make(chan struct{})
	p = &program{name: name, cmd: cmd, said: &lastWords{to: stderr}, serving: serving, stopLimit: stopLimit}
	cmd.Stdout, cmd.Stderr = &announcement{word: word, serving: serving}, p.said
	if p.ended, err = embeddedpg.StartChild(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop asks the process to finish what it has begun, and kills it if this takes too long.
func (p *program) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		return p.said.add(err)
	case <-time.After(p.stopLimit):
		_ = p.cmd.Process.Kill()
		end := fmt.Sprint(<-p.ended) // as a text: it is not one that others have killed
		return fmt.Errorf("stop %s: it was killed, because it had not stopped after %s (%s)", p.name, p.stopLimit, end)
	}
}

// self is this program. Through the link it is the same one also when the file has been replaced since.
func self() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// endedBySignal tells whether a signal ended the process.
func endedBySignal(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && !exit.Exited()
}

// killed tells whether kill -9 ended the process.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// announcement is the stdout of a child. It closes serving when the child says that it serves, by a word.
type announcement struct {
	word    string
	said    bytes.Buffer
	serving chan struct{}
	done    bool
}

// maxSaid bounds what is kept of a child's output.
const maxSaid = 4 << 10

func (a *announcement) Write(p []byte) (int, error) {
	if !a.done && a.said.Len() < maxSaid {
		a.said.Write(p)
		if strings.Contains(a.said.String(), a.word) {
			a.done = true
			close(a.serving)
		}
	}
	return len(p), nil
}

// lastWords is the stderr of a child. It passes everything on, and keeps the end, which says why the child has failed.
type lastWords struct {
	to  io.Writer
	end []byte
}

func (w *lastWords) Write(p []byte) (int, error) {
	w.end = append(w.end, p...)
	w.end = w.end[max(0, len(w.end)-maxSaid):]
	return w.to.Write(p)
}

// add adds the child's last line to the error with which it has ended. It may be called when the child has ended.
func (w *lastWords) add(err error) error {
	text := strings.TrimSpace(string(w.end))
	if err == nil || text == "" || killed(err) { // Who was killed had no last words.
		return err
	}
	return fmt.Errorf("%w: %s", err, text[strings.LastIndexByte(text, '\n')+1:])
}

// oneAtATime lets several children and the log write to one writer.
type oneAtATime struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneAtATime) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
