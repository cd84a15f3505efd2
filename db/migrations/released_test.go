package migrations_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make freeze writes the migrations that no release has had into the file, below the version that CHANGELOG.md begins
// with. It changes no line that is there.
var update = flag.Bool("update", false, "note the migrations that are new in released.txt")

const list = "released.txt"

// release is a version with the migrations that it brought: SHA-256 by file name.
type release struct {
	version string
	files   map[string]string
}

var (
	versionForm = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	fileForm    = regexp.MustCompile(`^([0-9a-f]{64})  (\d{5}_\w+\.sql)$`)
)

// readReleases reads released.txt, oldest release first.
func readReleases(text string) ([]release, error) {
	var all []release
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch match := fileForm.FindStringSubmatch(line); {
		case line == "" || strings.HasPrefix(line, "#"):
		case versionForm.MatchString(line):
			all = append(all, release{line, map[string]string{}})
		case match == nil || len(all) == 0:
			return nil, fmt.Errorf("line %q is neither a version nor a file of one", line)
		default:
			all[len(all)-1].files[match[2]] = match[1]
		}
	}
	return all, nil
}

// breaches says what is not as it was released, and what a database that has the release would never run.
func breaches(releases []release, files map[string]string) []string {
	var found []string
	last := ""
	known := map[string]bool{}
	for _, r := range releases {
		for _, name := range slices.Sorted(maps.Keys(r.files)) {
			known[name], last = true, max(last, name)
			switch sum, there := files[name]; {
			case !there:
				found = append(found, name+" was released with "+r.version+", and is gone")
			case sum != r.files[name]:
				found = append(found, name+" was released with "+r.version+", and was changed: write a new file")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !known[name] && number(name) <= number(last) {
			found = append(found, name+" must have a greater number than "+last+", which was released")
		}
	}
	return found
}

// number is the text of it: all have the same length.
func number(name string) string {
	n, _, _ := strings.Cut(name, "_")
	return n
}

// migrationFiles are those of the tree, with their SHA-256.
func migrationFiles(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("[0-9]*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	files := map[string]string{}
	for _, name := range names {
		sum := sha256.Sum256([]byte(read(t, name)))
		files[name] = hex.EncodeToString(sum[:])
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// releases is empty where nothing was released yet, such as in a service that begins with these files.
func releases(t *testing.T) []release {
	t.Helper()
	all, err := readReleases(read(t, list))
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return all
}

func TestReleasedMigrationsAreAsTheyWereReleased(t *testing.T) {
	t.Parallel()
	for _, breach := range breaches(releases(t), migrationFiles(t)) {
		t.Error(breach)
	}
	if *update && !t.Failed() {
		freeze(t)
	}
}

// freeze appends the files that no release has.
func freeze(t *testing.T) {
	t.Helper()
	text := read(t, list)
	all, err := readReleases(text)
	if err != nil {
		t.Fatal(err)
	}
	files := migrationFiles(t)
	for _, r := range all {
		maps.DeleteFunc(files, func(name, _ string) bool { return r.files[name] != "" })
	}
	if len(files) == 0 {
		return
	}
	var add strings.Builder
	if version := newest(t); len(all) == 0 || all[len(all)-1].version != version {
		fmt.Fprintf(&add, "\n%s\n", version)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&add, "%s  %s\n", files[name], name)
	}
	if err := os.WriteFile(list, []byte(text+add.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newest is the version that CHANGELOG.md begins with.
func newest(t *testing.T) string {
	t.Helper()
	scanner := bufio.NewScanner(strings.NewReader(read(t, "../../CHANGELOG.md")))
	for scanner.Scan() {
		if heading, ok := strings.CutPrefix(scanner.Text(), "## "); ok {
			version, _, _ := strings.Cut(heading, ",")
			if versionForm.MatchString(version) {
				return version
			}
		}
	}
	t.Fatal("CHANGELOG.md has no version")
	return ""
}

func TestEachChangeOfAReleasedMigrationIsFound(t *testing.T) {
	t.Parallel()
	sum := func(c string) string { return strings.Repeat(c, 64) }
	all, err := readReleases("# a comment\n1.0.0\n" + sum("a") + "  00001_one.sql\n" + sum("b") +
		"  00120_two.sql\n\n1.1.0\n" + sum("c") + "  00121_three.sql\n")
	if err != nil {
		t.Fatal(err)
	}
	const order = "must have a greater number"
	for what, row := range map[string]struct {
		change func(files map[string]string)
		want   string
	}{
		"nothing":          {func(map[string]string) {}, ""},
		"a new file":       {func(f map[string]string) { f["00122_four.sql"] = sum("d") }, ""},
		"an edit":          {func(f map[string]string) { f["00001_one.sql"] = sum("d") }, "was changed"},
		"a removal":        {func(f map[string]string) { delete(f, "00120_two.sql") }, "is gone"},
		"a number between": {func(f map[string]string) { f["00119_x.sql"] = sum("d") }, order},
		"a number twice":   {func(f map[string]string) { f["00121_x.sql"] = sum("d") }, order},
	} {
		files := map[string]string{"00001_one.sql": sum("a"), "00120_two.sql": sum("b"), "00121_three.sql": sum("c")}
		row.change(files)
		found := strings.Join(breaches(all, files), "; ")
		if row.want == "" && found != "" || !strings.Contains(found, row.want) {
			t.Errorf("%s: found %q, want %q", what, found, row.want)
		}
	}
	for _, bad := range []string{sum("a") + "  00001_one.sql\n", "1.0.0\nsomething\n", "1.0.0\nabc  00001_one.sql\n"} {
		if _, err := readReleases(bad); err == nil {
			t.Errorf("the list %q is taken", bad)
		}
	}
}
