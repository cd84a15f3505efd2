package embeddedpg

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starter runs the test binary as a separate starter for dir.
func starter(t *testing.T, dir string, attr *syscall.SysProcAttr) (*exec.Cmd, report) {
	t.Helper()
	cmd, got := tryStarter(t, dir, attr)
	if got.Err != "" {
		t.Fatalf("starter: %s", got.Err)
	}
	return cmd, got
}

func tryStarter(t *testing.T, dir string, attr *syscall.SysProcAttr, env ...string) (*exec.Cmd, report) {
	t.Helper()
	// Through the link, an unprivileged child needs no access to the path.
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), helperEnv+"="+dir), env...)
	cmd.SysProcAttr = attr
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start starter: %v", err)
	}
	var got report
	t.Cleanup(func() {
		ending, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		// The directory may go only after the server has.
		for got.PID != 0 && !gone(got.PID) {
			if pause(ending, 5*time.Millisecond) != nil {
				t.Errorf("server %d outlived its starter", got.PID)
				return
			}
		}
	})
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&got); err != nil {
		rest, _ := io.ReadAll(out)
		t.Fatalf("read starter's report: %v\n%s%s", err, rest, stderr.String())
	}
	return cmd, got
}

// gone tells whether a process has ended, be it that nobody has waited for it.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
