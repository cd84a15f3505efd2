package archtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// wired are the lines that a third provider adds, each behind a line that is there. The third is a copy of native.
var wired = []struct{ file, behind, add string }{
	{"internal/config/shared.go", "\tStripeSecret string `", `
	ThirdURL    string ` + "`env:\"THIRD_URL\" envDefault:\"http://127.0.0.1:8086\" desc:\"the API of the third\"`" + `
	ThirdSecret string ` + "`env:\"THIRD_SECRET\" desc:\"our secret at the third; none: no third\"`"},
	{"internal/config/config.go", "\tStripeWebhookSecrets []string `", `
	ThirdWebhookSecrets []string ` + "`env:\"THIRD_WEBHOOK_SECRETS\" desc:\"what the third signs webhooks with\"`"},
	{"internal/config/provider.go", "\treturn []provider{", `
		{"third", "THIRD_SECRET", func(c Shared) string { return c.ThirdSecret }, "the third's dashboard shows it"},`},
	{"internal/app/operations.go", "\t\"payonce/internal/gateway/stripe\"", `
	"payonce/internal/gateway/third"`},
	{"internal/app/operations.go", "\tfurther := gateway.PSPs{}", `
	if c.ThirdSecret != "" {
		if further[third.Name], err = third.New(
			c.ThirdURL, c.ThirdSecret, limitsOf(c.Shared), c.ThirdWebhookSecrets, time.Now,
		); err != nil {
			return fmt.Errorf("THIRD_…: %w", err)
		}
	}`},
	{"internal/app/operations.go", "\tall[\"stripe\"] = ", `
	all[third.Name] = a.receiver(third.Name, a.settings.ThirdWebhookSecrets)`},
	{"test/archtest/rings.go", "\t\t\"internal/gateway/stripe\",", `
		"internal/gateway/third",`},
}

// The bounds of what docs/providers.md promises to those who wire a provider.
const (
	mostFiles = 5
	mostLines = 20
)

func TestThirdProviderIsWiredInFewLines(t *testing.T) {
	t.Parallel()
	files, lines := map[string]bool{}, 0
	for _, w := range wired {
		files[w.file] = true
		lines += strings.Count(w.add, "\n")
	}
	if len(files) > mostFiles || lines > mostLines {
		t.Errorf("a third provider is wired in %d files and %d lines, want %d and %d at most", len(files), lines,
			mostFiles, mostLines)
	}
	t.Logf("%d files, %d lines", len(files), lines)
}

// What else the rules want of a third provider, their messages say: a place in a ring, and a fuzz target for each of
// its parsers.
func TestRulesSayWhatAThirdProviderLacks(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{}
	for name, text := range withThird(t) {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	sources, err := parseTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	if all := slices.Concat(importBreaches(sources), ringBreaches(sources)); len(all) > 0 {
		t.Errorf("an import is refused: %v", all)
	}
	places := placeBreaches(sources)
	if len(places) != 1 || places[0].where != "internal/gateway/third" ||
		!strings.Contains(places[0].why, "test/archtest/rings.go") {
		t.Errorf("without its place: %v", places)
	}
	parsed := 0
	for _, b := range parserBreaches(sources, parsers) {
		if strings.HasPrefix(b.where, "internal/gateway/third/") {
			parsed++
			if !strings.Contains(b.why, "the table of test/archtest/fuzz_test.go") {
				t.Errorf("a parser without a target: %v", b)
			}
		}
	}
	if parsed == 0 {
		t.Error("a provider without fuzz targets is taken as it is")
	}
}

// The program with the third provider knows it: it asks for its secret, and with a secret it makes the client.
func TestThirdProviderIsServed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it builds the API once more")
	}
	t.Parallel()
	dir, root := t.TempDir(), moduleRoot(t)
	replace := map[string]string{}
	for name, text := range withThird(t) {
		stored := filepath.Join(dir, fmt.Sprintf("%03d.go", len(replace)))
		if err := os.WriteFile(stored, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = stored
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "api")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", list, "-o", program,
		"./cmd/api")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the API with a third provider: %v\n%s", err, out)
	}
	for _, c := range []struct {
		args, want string
		env        []string
	}{
		{"serve", "THIRD_SECRET is not set, and PSP is third", []string{"PSP=third"}},
		{"serve", "THIRD_…: ", []string{"PSP=third", "THIRD_SECRET=s", "THIRD_URL=no"}},
		{"tenants create acme --psp fourth", "must be third or native or stripe", nil},
	} {
		cmd := exec.CommandContext(t.Context(), program, strings.Fields(c.args)...)
		cmd.Env = append(c.env, "DATABASE_URL=postgres://127.0.0.1:1/none")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("api %s, %v: %v, %s, want %q", c.args, c.env, err, out, c.want)
		}
	}
}

// withThird are the files of a tree with the third provider that are other ones than ours.
func withThird(t *testing.T) map[string]string {
	t.Helper()
	root, changed := moduleRoot(t), map[string]string{}
	read := func(name string) string {
		if text, ok := changed[name]; ok {
			return text
		}
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	native, err := filepath.Glob(filepath.Join(root, "internal/gateway/native/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range native {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") {
			changed["internal/gateway/third/"+name] = strings.NewReplacer("package native", "package third",
				`Name = "native"`, `Name = "third"`).Replace(read("internal/gateway/native/" + name))
		}
	}
	for _, w := range wired {
		text := read(w.file)
		at := strings.Index(text, "\n"+w.behind)
		if at < 0 {
			t.Fatalf("%s has no line that begins with %q", w.file, w.behind)
		}
		at += 1 + strings.Index(text[at+1:], "\n")
		changed[w.file] = text[:at] + w.add + text[at:]
	}
	return changed
}
