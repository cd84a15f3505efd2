package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// What the lesson says: inside of one process, the store is right.
func TestOneProcessExecutesAKeyOnce(t *testing.T) {
	t.Parallel()
	k := keys{seen: map[string]bool{}}
	var executed atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if k.first("key-1") {
				executed.Add(1)
			}
		})
	}
	all.Wait()
	if n := executed.Load(); n != 1 || !k.first("key-2") {
		t.Errorf("key-1 was executed %d times, and key-2 must be new", n)
	}
}

// And: neither another process nor the next one knows the key.
func TestAKeyEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "memory")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	var answers []string
	for line := range strings.Lines(said.String()) {
		_, answer, _ := strings.Cut(strings.TrimSpace(line), "key-1: ")
		answers = append(answers, answer)
	}
	if got, want := strings.Join(answers, " "), "executed replayed executed executed"; got != want {
		t.Errorf("the processes have answered %q, want %q:\n%s", got, want, &said)
	}
}
