package supervisor

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"payonce/test/pgtest"
)

var update = flag.Bool("update", false, "write the answers into the README, docs/by_hand.md and docs/mock_psp.md")

const (
	readme   = "../../README.md"
	toUpdate = "if the new answers are right: go test ./demo/supervisor -run AsShown -update"
)

// shellBlock is what a reader pastes, and the block behind it, which is what the paste prints.
var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)```\n")

// What the README's tour has to paste is run as it stands, in one bash, against the demo as it starts. Each block must
// print what the README shows.
func TestReadmeTourAnswersAsShown(t *testing.T) {
	t.Parallel()
	blocksAnswerAsShown(t, readme, "\n## A tour\n", "sed", "grep")
}

// So is the page for those who write a server against the mock PSP.
func TestWireFormatAnswersAsShown(t *testing.T) {
	t.Parallel()
	blocksAnswerAsShown(t, "../../docs/mock_psp.md", "", "sed", "grep", "openssl")
}

// blocksAnswerAsShown pastes the blocks of one section, or of the whole page.
func blocksAnswerAsShown(t *testing.T, name, section string, tools ...string) {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := strings.Index(string(page), section), len(page)
	if section != "" {
		end = begin + 1 + strings.Index(string(page)[begin+1:], "\n## ")
	}
	tour := string(page)[begin:end]
	blocks := shellBlock.FindAllStringSubmatch(tour, -1)
	if pastes := strings.Count(tour, "\n```sh\n"); len(blocks) < 2 || len(blocks) != pastes {
		t.Fatalf("%s has %d blocks to paste, and %d with what they print", name, pastes, len(blocks))
	}

	const boundary = "\x1e\n"
	script := ""
	for _, b := range blocks {
		script += b[1] + "printf '\\x1e\\n'\n"
	}
	printed := strings.Split(pasted(t, script, tools...), boundary)
	if len(printed) != len(blocks)+1 {
		t.Fatalf("%d blocks have printed %d parts:\n%s", len(blocks), len(printed)-1, printed)
	}
	if *update {
		i := -1
		tour = shellBlock.ReplaceAllStringFunc(tour, func(both string) string {
			i++
			at := strings.Index(both, "```text\n") + len("```text\n")
			return both[:at] + printed[i] + "```\n"
		})
		writing.Lock()
		defer writing.Unlock()
		write(t, name, string(page)[:begin]+tour+string(page)[end:])
		return
	}
	for i, b := range blocks {
		if normal(printed[i]) != normal(b[2]) {
			t.Errorf("this prints\n%s\n%s shows\n%s\n%s\n\n%s", printed[i], name, b[2], toUpdate, b[1])
		}
	}
}

// pasted runs a script in bash in the project's folder, as a reader would, against a demo of its own. It returns what
// the script prints, with the demo's usual addresses.
func pasted(t *testing.T, script string, tools ...string) string {
	t.Helper()
	return pastedIn(t, nil, script, tools...)
}

// pastedIn is pasted in a demo with settings.
func pastedIn(t *testing.T, settings []string, script string, tools ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("long: what the pages show waits for leases, webhooks and lookups")
	}
	for _, tool := range append(tools, "bash", "curl") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this needs %s", tool)
		}
	}
	d := startDemo(t, pgtest.MigratedDir(t), settings...)
	script = strings.NewReplacer("localhost:8080", d.public, "localhost:8081", d.operator, "localhost:8082",
		d.psp, "localhost:8085", d.stripe).Replace(script)
	cmd := exec.CommandContext(t.Context(), "bash", "-uc", script)
	cmd.Dir = "../.."
	// These are for course/shell.sh.
	cmd.Env = append(os.Environ(), "API_URL=http://"+d.public, "OPERATOR_URL=http://"+d.operator,
		"PSP_URL=http://"+d.psp, "RECONCILER_URL=http://"+d.reconciler)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run\n%s\n%v\n%s", script, err, out)
	}
	return strings.NewReplacer(d.public, "localhost:8080", d.operator, "localhost:8081", d.psp,
		"localhost:8082").Replace(strings.TrimSpace(string(out)) + "\n")
}

// writing lets one test after the other change a page.
var writing sync.Mutex

func write(t *testing.T, page, content string) {
	t.Helper()
	if err := os.WriteFile(page, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// normal takes out what differs between two runs.
func normal(s string) string {
	for _, differing := range []string{
		`(pay|ch|re|rf|dp|req|we|evt)_[0-9A-Za-z]+`, `…_[0-9]{16}`, `"version":[0-9]{16}`, `whsec_[0-9A-Za-z+/]+=`,
		`(tour|by-hand|wire)-[0-9]+`, `(lost|killed)-[0-9]+-k[0-9a-f]{4}`,
		`[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?`, `[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}`,
		`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, `"ageSeconds":[0-9]+`,
		`"source":"(webhook|scan)"`, // the one that came first
		// What curl says of a connection that has ended differs with its version, and with what arrived first.
		`curl: [0-9]+ [^)]*`,
	} {
		s = regexp.MustCompile(differing).ReplaceAllString(s, "…")
	}
	return s
}
