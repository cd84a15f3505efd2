package lessons

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"payonce/test/pgtest"
)

var update = flag.Bool("update", false, "write into the pages what comes out, and where the linked code is now")

func TestMain(m *testing.M) { pgtest.Main(m) }

// root is the repository's folder, seen from this package.
const root = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// rewriting has one test after the other change a page.
var rewriting sync.Mutex

// rewrite changes a page. Other tests may change other parts of it at the same time, so change gets what is there now.
func rewrite(t *testing.T, name string, change func(page string) string) {
	t.Helper()
	rewriting.Lock()
	defer rewriting.Unlock()
	page := readFile(t, name)
	if changed := change(page); changed != page {
		if err := os.WriteFile(filepath.Join(root, name), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// lessonPages are the lessons, in order.
func lessonPages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "course/lessons/[0-9][0-9]-*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no lessons: %v", err)
	}
	var pages []string
	for _, path := range found {
		pages = append(pages, "course/lessons/"+filepath.Base(path))
	}
	return pages
}

// nameOf is the name of a lesson's test, such as 01-the-same-bytes.
func nameOf(page string) string { return strings.TrimSuffix(filepath.Base(page), ".md") }
