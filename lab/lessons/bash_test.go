package lessons

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	labprogram "payonce/lab/program"
)

// terminal is the reader's: one bash, which keeps its variables and functions from one block to the next.
type terminal struct {
	dir   string // of the files that are sourced
	input io.WriteCloser
	out   *bufio.Reader
	lines int // that were pasted, to name the files
}

// endOfBlock comes after the output of a block. It cannot be typed by accident.
const endOfBlock = "\x1e"

// driver sources the files that are named on its descriptor 3. It notes the line of each command that fails. Commands
// inside of functions, and conditions, are left out, as in a shell with set -e.
const driver = `
trap '[ -z "${BASH_SOURCE-}" ] || failed+=" $LINENO"' ERR
while IFS= read -r block <&3; do
  failed=
  . "$block" </dev/null
  printf '` + endOfBlock + `%s\n' "$failed"
done`

// openTerminal starts a bash in the repository's folder. It dies with ctx, and so does what it has started.
func openTerminal(ctx context.Context, t *testing.T, environment []string) *terminal {
	t.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	names, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	printed, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--noprofile", "--norc", "-c", driver)
	cmd.Dir, cmd.SysProcAttr = absolute, labprogram.Group()
	cmd.Env = append(environment, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "LC_ALL=C.UTF-8")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{names}
	ended, err := labprogram.Start(cmd)
	_, _ = names.Close(), output.Close()
	if err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	t.Cleanup(func() {
		stop()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		_, _ = input.Close(), printed.Close()
	})
	return &terminal{dir: t.TempDir(), input: input, out: bufio.NewReader(printed)}
}

// paste runs a block. It returns what is printed, and the lines of the block whose commands have failed.
func (b *terminal) paste(text string) (output string, failed []int, err error) {
	b.lines++
	file := filepath.Join(b.dir, fmt.Sprintf("block-%d", b.lines))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	if _, err := fmt.Fprintln(b.input, file); err != nil {
		return "", nil, err
	}
	output, err = b.out.ReadString(endOfBlock[0])
	output = strings.TrimSuffix(output, endOfBlock)
	if err != nil {
		return output, nil, fmt.Errorf("the block does not end: %w", err)
	}
	lines, err := b.out.ReadString('\n')
	for _, line := range strings.Fields(lines) {
		number, _ := strconv.Atoi(line) // bash writes numbers
		failed = append(failed, number)
	}
	return output, failed, err
}

func TestTerminalKeepsItsVariablesAndNotesFailures(t *testing.T) {
	t.Parallel()
	b := openTerminal(t.Context(), t, []string{"WORD=from outside"})
	for _, c := range []struct{ pasted, want, failed string }{
		{"x=1; f() { false; echo \"f has $1\"; }", "", "[]"},
		{"f $x\necho $WORD >&2\nread -r line || echo no input", "f has 1\nfrom outside\nno input\n", "[]"},
		{"echo before\nfalse\nif false; then :; fi\nfalse || echo after\ng() { return 3; }\ng", "before\nafter\n", "[2 6]"},
		{"test -f course/shell.sh && echo there", "there\n", "[]"},
	} {
		output, failed, err := b.paste(c.pasted)
		if err != nil || output != c.want || fmt.Sprint(failed) != c.failed {
			t.Errorf("%s\nprints %q, want %q, failed %v, want %s, %v", c.pasted, output, c.want, failed, c.failed, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	endless := openTerminal(ctx, t, nil)
	cancel()
	if _, _, err := endless.paste("while :; do read -t 1 </dev/zero; done"); err == nil {
		t.Error("a block without an end ends by itself")
	}
}
