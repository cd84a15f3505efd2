package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payonce/lab/grade/judge"
	"payonce/lab/world"
	"payonce/test/heldport"
)

// The program alone grades a server in a folder where nothing of ours is, without Go. The starters are servers that the
// grader understands, and that charge too often.
func TestProgramAloneGradesTheStarters(t *testing.T) {
	skipShort(t)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "grade")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the grader: %v\n%s", err, out)
	}
	path := withoutGo()
	for interpreter, file := range map[string]string{"python3": "python/server.py", "node": "node/server.mjs"} {
		t.Run(interpreter, func(t *testing.T) {
			t.Parallel()
			if !slices.ContainsFunc(path, func(dir string) bool { return isThere(dir, interpreter) }) {
				t.Skip(interpreter + " is not installed, or only where Go is")
			}
			dir := t.TempDir()
			raw, err := os.ReadFile(filepath.Join("../../course/starters", file))
			if err != nil {
				t.Fatal(err)
			}
			server := filepath.Base(file)
			if err := os.WriteFile(filepath.Join(dir, server), raw, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "--json", "--profile", "plain", "--level", "1,2",
				"./"+server)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+strings.Join(path, string(os.PathListSeparator)))
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != exitBelow {
				t.Fatalf("%v\n%s", err, said.String())
			}
			var r report
			if err := json.Unmarshal(out, &r); err != nil || r.First == nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if r.First.Invariant != judge.Once || r.First.Why != "charged 2 times" || r.Marks == 0 {
				t.Errorf("%d of %d marks, first: %+v", r.Marks, r.Of, r.First)
			}
			page, err := os.ReadFile(filepath.Join(dir, r.First.HTML))
			if err != nil || !strings.Contains(string(page), "lessons/00-three-charges.md</code> of the project") {
				t.Errorf("the page: %v\n%s", err, page)
			}
		})
	}
}

// A request that a starter cannot read is the client's fault, and must not end the server for all others.
func TestStartersRefuseABodyAndServeTheNext(t *testing.T) {
	t.Parallel()
	for interpreter, file := range map[string]string{"python3": "python/server.py", "node": "node/server.mjs"} {
		t.Run(interpreter, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(interpreter)
			if err != nil {
				t.Skip(interpreter + " is not installed")
			}
			port, err := heldport.Hold()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(port.Close)
			_, number, _ := strings.Cut(port.Address, ":")
			p := &world.Process{Name: interpreter, Address: port.Address, Operator: port.Address, Program: program,
				Args: []string{filepath.Join("../../course/starters", file)}, Log: filepath.Join(t.TempDir(), "log"),
				Env:   []string{"PORT=" + number, "PSP_URL=http://127.0.0.1:1", "PSP_SECRET=none", "API_KEYS=key=acme"},
				Probe: "http://" + port.Address, Accepts: func(int) bool { return true }}
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			const nobodyKnows = http.StatusBadGateway // the PSP is not there
			for _, row := range []struct {
				body string
				want int
			}{
				{"{", http.StatusBadRequest}, {"", http.StatusBadRequest}, {"null", http.StatusBadRequest},
				{`{"amount":1,"currency":"USD","token":"pm_ok"}`, nobodyKnows},
			} {
				got, err := post(t.Context(), p.Probe, row.body)
				if err != nil || got != row.want {
					t.Errorf("%q is answered %d, %v, want %d; it says %s", row.body, got, err, row.want, p.LastWords())
				}
			}
		})
	}
}

func post(ctx context.Context, url, body string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// withoutGo are the folders of PATH that have no Go.
func withoutGo() []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return isThere(dir, "go") })
}

func isThere(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}
