package world

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"payonce/lab/program"
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

func TestStopTellsHowTheProcessHasEnded(t *testing.T) {
	t.Parallel()
	for onTerm, want := range map[string]bool{"exit 0": true, "exit 3": false, "": false} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c",
			"trap '"+onTerm+"' TERM; echo ready; tail -f /dev/null & wait")
		cmd.SysProcAttr = program.Group()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		done, err := program.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		p := &Process{cmd: cmd, done: done, Group: true}
		limit := stopLimit
		if onTerm == "" { // it hears nothing, and is killed
			limit = time.Millisecond
		}
		if got := p.end(syscall.SIGTERM, limit); got != want || p.Running() {
			t.Errorf("on SIGTERM %q: in good order: %t", onTerm, got)
		}
		if p.Stop() {
			t.Errorf("on SIGTERM %q: it has ended before, and that is called good order", onTerm)
		}
	}
}
