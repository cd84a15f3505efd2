package lessons

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A shell or a curl that is too old prints nonsense in the middle of a lesson. So the file refuses them in one line.
func TestShellFileRefusesWhatIsTooOld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, want string }{
		"another shell":   {"unset BASH_VERSION", "needs bash 4.1 or newer"},
		"bash of a Mac":   {"BASH_VERSION='3.2.57(1)-release'", "needs bash 4.1 or newer"},
		"bash 4.0":        {"BASH_VERSION='4.0.44(2)-release'", "needs bash 4.1 or newer"},
		"an old curl":     {"curl() { echo 'curl 7.83.1 (x86_64) libcurl/7.83.1'; }", "This machine has: curl 7.83.1"},
		"no curl":         {"curl() { echo 'curl: not found' >&2; return 127; }", "This machine has: curl: not found"},
		"bash 4.1":        {"BASH_VERSION='4.1.0(1)-release'", ""},
		"bash 10":         {"BASH_VERSION='10.0.1(1)-release'", ""},
		"the oldest curl": {"curl() { echo 'curl 7.84.0 (x86_64) libcurl/7.84.0'; }", ""},
		"a newer curl":    {"curl() { echo 'curl 10.0.0 (x86_64) libcurl/10.0.0'; }", ""},
	} {
		bash := exec.CommandContext(t.Context(), "bash", "-c", c.before+"; . course/shell.sh && key x")
		bash.Dir = root
		printed, err := bash.CombinedOutput()
		if refused := err != nil; refused != (c.want != "") || !strings.Contains(string(printed), c.want) ||
			strings.Count(string(printed), "\n") > 1 {
			t.Errorf("%s: %q, %v; want one line with %q", name, printed, err, c.want)
		}
	}
}

// A newcomer who forgets the key, or whose demo has other ports, is told what to do.
func TestShellFileSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	const nobody = "http://127.0.0.1:1"
	for command, want := range map[string]string{
		"pay 700":        "Run key NAME first",
		"key x; pay 700": nobody + ". Set API_URL",
		"key x; charged": nobody + ". Set PSP_URL",
	} {
		bash := exec.CommandContext(t.Context(), "bash", "-c", "unset KEY; . course/shell.sh; "+command)
		bash.Dir, bash.Env = root, append(os.Environ(), "API_URL="+nobody, "PSP_URL="+nobody)
		printed, _ := bash.CombinedOutput() // what is said counts
		if !strings.Contains(string(printed), want) {
			t.Errorf("%s: %q; want %q", command, printed, want)
		}
	}
}
