package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

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
	if err == nil || text == "" {
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
