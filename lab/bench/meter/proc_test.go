package meter

import (
	"testing"
	"time"
)

const (
	statTail   = " S 41 1 1 0 -1 4194304 100 0 0 0 7 5 20 30 20 0 1 0 2190702 3133440 360 18446744073709551615 1 1 1"
	statParent = 41
)

func TestProcessMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres", "a b) c", ") S 1 2 3", "((", "", "new\nline", "tab\t", "ü)ber (",
		"1 2 3 4 5 6 7 8 9 10 11 12 13 14"} {
		got, err := parseProcess([]byte("123 (" + name + ")" + statTail))
		want := processTimes{parent: statParent, own: 120 * time.Millisecond, reaped: 500 * time.Millisecond}
		if err != nil || got != want {
			t.Errorf("process %q: %+v (%v), want %+v", name, got, err, want)
		}
	}
}

func TestTextsThatAreNotWhatTheyShouldBeAreErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "123", "123 (x", "123 (x)", "123 (x) S 1 2 3",
		"123 (x) S y 1 1 0 -1 0 1 0 0 0 7 5 20 30", "123 (x) S 1 1 1 0 -1 0 1 0 0 0 7 z 20 30"} {
		if got, err := parseProcess([]byte(text)); err == nil {
			t.Errorf("stat of a process %q gives %+v", text, got)
		}
	}
	for _, text := range []string{"", "intr 1\n", "cpu  1 2 3 4 5\n", "cpu  1 2 3 4\ncpu0 1 2 3 4\n",
		"cpu  1 2 3 x 5\ncpu0 1\n", "cpu0 1 2 3 4 5\n"} {
		if got, err := parseMachine([]byte(text)); err == nil {
			t.Errorf("stat of the machine %q gives %+v", text, got)
		}
	}
	if got, err := parseRun([]byte("x 1 2")); err == nil {
		t.Errorf("schedstat gives %v", got)
	}
}

func TestMachineIdlesOnAllItsCoresAndWhileItWaitsForADisk(t *testing.T) {
	t.Parallel()
	got, err := parseMachine([]byte("cpu  1404121 1784 969652 1937529 21229 0 12760 821 0 0\ncpu0 703242 836 464028 995128 6368 0 2347 399 0 0\n" +
		"cpu1 700879 947 505624 942401 14861 0 10413 421 0 0\nintr 56474626 0\nctxt 144007208\n"))
	want := machineTimes{cores: 2, idle: (1937529 + 21229) * tick}
	if err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
}
