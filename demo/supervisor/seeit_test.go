package supervisor

import (
	"context"
	"html"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"payonce/internal/problem"
	"payonce/test/pgtest"
)

var shownLine = regexp.MustCompile(`(?s)<h2>See it</h2>.*<pre[^>]*><code>(.*?)</code></pre>`)

// Each line under "See it" is run as the page shows it, against the demo as it starts, and must be answered with the
// problem of its page. One after the other: a line about dead letters takes the newest one.
func TestEveryProblemPageShowsItsProblem(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every problem, in a demo of its own")
	}
	t.Parallel()
	for _, tool := range []string{"sh", "curl", "sed", "seq", "xargs"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the lines need %s", tool)
		}
	}
	// An empty PUBLIC_URL is as good as none: the pages have the address that the demo has found for itself. A hundred
	// requests at once exceed the places for requests to the PSP. There are fewer places here than in the demo, because
	// a busy machine starts a hundred curls slowly.
	d := startDemo(t, pgtest.MigratedDir(t), "PUBLIC_URL=", "PSP_IN_FLIGHT=16")
	shown := 0
	for _, entry := range problem.All() {
		line := seeIt(t, d, entry.Code)
		if (line == "") != (entry.Unseen != "") {
			t.Errorf("%s: the page shows %q, the catalogue says %q", entry.Code, line, entry.Unseen)
		}
		if line == "" {
			continue
		}
		shown++
		if out := sh(t, line); !strings.Contains(out, `"code":"`+string(entry.Code)+`"`) {
			t.Errorf("%s: the line\n%s\nis answered\n%s", entry.Code, line, out)
		}
	}
	if shown < 20 {
		t.Errorf("only %d lines are shown", shown)
	}
}

// seeIt is the line on the page of a problem, or nothing.
func seeIt(t *testing.T, d demo, code problem.Code) string {
	t.Helper()
	page := ask(t, http.MethodGet, d.public, "/problems/"+string(code), "", nil)
	if page.status != http.StatusOK {
		t.Fatalf("the page of %s: %d", code, page.status)
	}
	found := shownLine.FindStringSubmatch(page.body)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// sh runs a line as a reader would. What its last command returns does not matter: curl's exit code says nothing of the
// answer.
func sh(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", line).Output()
	if err != nil && ctx.Err() != nil {
		t.Fatalf("%s\ndoes not end: %v", line, err)
	}
	return string(out)
}
