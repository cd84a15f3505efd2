package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// make freeze writes the migrations that no release has had into the file, as those of the version that CHANGELOG.md
// begins with. It changes no line that is there.
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

// migrationTexts are the files of the tree.
func migrationTexts(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("[0-9]*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	texts := map[string]string{}
	for _, name := range names {
		texts[name] = read(t, name)
	}
	return texts
}

// sums are the SHA-256 of files.
func sums(texts map[string]string) map[string]string {
	files := map[string]string{}
	for name, text := range texts {
		sum := sha256.Sum256([]byte(text))
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
	texts := migrationTexts(t)
	for _, breach := range breaches(releases(t), sums(texts)) {
		t.Error(breach)
	}
	if !*update || t.Failed() {
		return
	}
	frozen, err := freeze(read(t, list), read(t, "../../CHANGELOG.md"), texts)
	if err == nil {
		err = os.WriteFile(list, []byte(frozen), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// freeze adds the newest version to the list, with the files that no release has. A version that is listed may be
// out already, and the files of the first one are not judged: nothing is added to it.
func freeze(list, changelog string, texts map[string]string) (string, error) {
	all, err := readReleases(list)
	if err != nil {
		return "", err
	}
	files := sums(texts)
	for _, r := range all {
		maps.DeleteFunc(files, func(name, _ string) bool { return r.files[name] != "" })
	}
	version, err := newest(changelog)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(all, func(r release) bool { return r.version == version }) {
		if len(files) > 0 {
			return "", fmt.Errorf("%s is listed already, so these belong to the next version, with which CHANGELOG.md "+
				"must begin: %v", version, slices.Sorted(maps.Keys(files)))
		}
		return list, nil
	}
	if found := refusals(append(all, release{version, files}), texts); len(found) > 0 {
		return "", errors.New(strings.Join(found, "\n"))
	}
	list += "\n" + version + "\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list += files[name] + "  " + name + "\n"
	}
	return list, nil
}

// newest is the version that CHANGELOG.md begins with.
func newest(changelog string) (string, error) {
	_, heading, _ := strings.Cut(changelog, "\n## ")
	heading, _, _ = strings.Cut(heading, "\n")
	version, _, _ := strings.Cut(heading, ",")
	if !versionForm.MatchString(version) {
		return "", fmt.Errorf("CHANGELOG.md begins with %q, which is no version", heading)
	}
	return version, nil
}

func TestFreezeAddsToNoVersionThatIsListed(t *testing.T) {
	t.Parallel()
	const first, second, bad = "CREATE TABLE a (id bigint);", "CREATE TABLE b (id bigint);", "DROP TABLE a;"
	line := func(name, text string) string { return sums(map[string]string{name: text})[name] + "  " + name + "\n" }
	one, two := line("00001_a.sql", first), line("00002_b.sql", second)
	released := "# a comment\n\n1.0.0\n" + one
	for what, row := range map[string]struct {
		list, begins, second string
		want, refused        string
	}{
		"the first release":           {"", "1.0.0, not released yet", "", "\n1.0.0\n" + one, ""},
		"a new file":                  {released, "1.1.0, today", second, released + "\n1.1.0\n" + two, ""},
		"no new file":                 {released, "1.1.0", "", released + "\n1.1.0\n", ""},
		"again":                       {released, "1.0.0, today", "", released, ""},
		"a new file of an old one":    {released, "1.0.0, today", second, "", "1.0.0 is listed already"},
		"a version without a number":  {released, "Unreleased\n\n## 1.1.0", second, "", "no version"},
		"a file that takes something": {released, "1.1.0", bad, "", "DROP TABLE a"},
	} {
		texts := map[string]string{"00001_a.sql": first}
		if row.second != "" {
			texts["00002_b.sql"] = row.second
		}
		got, err := freeze(row.list, "# Changes\n\n## "+row.begins+"\n\n- All.\n\n## 0.9.0\n", texts)
		switch {
		case row.refused == "" && (err != nil || got != row.want):
			t.Errorf("%s: %v\n%s\nwant\n%s", what, err, got, row.want)
		case row.refused != "" && (err == nil || !strings.Contains(err.Error(), row.refused)):
			t.Errorf("%s: refused with %v, want %s", what, err, row.refused)
		}
	}
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
