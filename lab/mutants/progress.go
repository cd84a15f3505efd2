package main

import (
	"fmt"
	"time"
)

// sayer writes a line for people.
type sayer func(format string, args ...any)

// every is how often the progress of long work is told.
const every = 15 * time.Second

// progress tells how far a work is, and how long it will take.
type progress struct {
	what        string
	n, all      int
	began, told time.Time
	say         sayer
}

func newProgress(what string, all int, say sayer) *progress {
	now := time.Now()
	return &progress{what: what, all: all, began: now, told: now, say: say}
}

// step counts one more.
func (p *progress) step(more string) {
	p.n++
	now := time.Now()
	if now.Sub(p.told) < every && p.n < p.all {
		return
	}
	p.told = now
	left := now.Sub(p.began) / time.Duration(p.n) * time.Duration(p.all-p.n)
	if more != "" {
		more = ", " + more
	}
	p.say("%d/%d %s%s, %s to go", p.n, p.all, p.what, more, fmt.Sprint(left.Round(time.Second)))
}
