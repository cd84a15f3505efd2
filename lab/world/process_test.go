package world

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProcessDoesNotStartWhereAnotherAnswers(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	address := l.Addr().String()
	p := &Process{Name: "late", Address: address, Operator: address, Log: filepath.Join(t.TempDir(), "log"),
		Program: os.Args[0]}
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "in use") || p.Running() {
		t.Fatalf("started where another one answers: %v", err)
	}
}

func TestAnswerOfAnotherProgramIsNotTakenForOneThatHasEnded(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	if err := stillThere(done); err != nil {
		t.Fatal(err)
	}
	close(done)
	if err := stillThere(done); err == nil {
		t.Fatal("a program that has ended counts as ready")
	}
}
