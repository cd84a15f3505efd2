package meter

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slack is what two readings of the same account may differ by: user and system time are cut to a tick each.
const slack = 2 * tick

func thisMachine(t *testing.T) *Meter {
	t.Helper()
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func used(t *testing.T, source Source) time.Duration {
	t.Helper()
	cpu, err := source.CPU()
	if err != nil {
		t.Fatal(err)
	}
	return cpu
}

const burnVariable = "PAYONCE_METER_BURNS"

// TestBurn is no test but the child of one: it burns until it has used what it was told, says what that was by its own
// account, and lives on until its input ends.
func TestBurn(t *testing.T) {
	enough, err := time.ParseDuration(os.Getenv(burnVariable))
	if err != nil {
		t.Skip("the child of another test")
	}
	fmt.Println(burn(t, enough).Nanoseconds()) //nolint:forbidigo // for the parent
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func burn(t *testing.T, enough time.Duration) time.Duration {
	for sum := 1; ; sum++ {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		if cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()); cpu >= enough {
			return cpu
		}
		for range 100_000 {
			sum *= 3
		}
	}
}

// burner starts such a child and returns it, when it has burnt, with its own account of that.
func burner(t *testing.T, enough time.Duration) (child *exec.Cmd, own time.Duration, end func()) {
	t.Helper()
	child = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBurn$")
	child.Env = append(os.Environ(), burnVariable+"="+enough.String())
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return child, time.Duration(ns), func() {
		t.Helper()
		_ = stdin.Close()
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMeterAgreesWithWhatAProcessHasUsedByItsOwnAccount(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	before := used(t, m.Ended("load", os.Getpid()))
	child, own, end := burner(t, 200*time.Millisecond)
	running := used(t, m.Process("child", child.Process.Pid))
	tree := used(t, m.Tree("all", os.Getpid()))
	end()
	total := child.ProcessState.UserTime() + child.ProcessState.SystemTime()

	if running < own-slack || running > total+slack {
		t.Errorf("the meter says %v, the process %v before and %v when it ended", running, own, total)
	}
	if ended := used(t, m.Ended("load", os.Getpid())) - before; ended < total-slack {
		t.Errorf("the meter says %v of ended children, the process used %v", ended, total)
	}
	if after := used(t, m.Tree("all", os.Getpid())); after < tree-slack {
		t.Errorf("with a child that has ended, a tree went from %v back to %v", tree, after)
	}
}

func TestSliceTellsItsSourcesFromOthers(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	named, unnamed := m.Ended("load", os.Getpid()), m.Process("harness", os.Getpid())
	with, without := begin(t, m, named, unnamed), begin(t, m, unnamed)
	_, own, end := burner(t, 300*time.Millisecond)
	end()
	a, b := with.mustEnd(t), without.mustEnd(t)
	if a.CPU["load"] < (own - slack).Seconds() {
		t.Errorf("the slice has %v s for a load that used %v", a.CPU["load"], own)
	}
	// The idle time of each core has steps of its own, and what the child used to begin and to end is not in its
	// account.
	if b.Others < (own - 3*slack).Seconds() {
		t.Errorf("others took %v s, where a load that used %v is one of them", b.Others, own)
	}
}
