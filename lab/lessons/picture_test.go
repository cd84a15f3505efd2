package lessons

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A lesson may embed the console's picture of its key. After the block that ends the story, the page has the line
//
//	<!-- picture: pictures/06-found.svg -->
//
// and the test asks the console for the picture of the terminal's $KEY at this moment, and compares it with the file.
var (
	pictureMark = regexp.MustCompile(`(?m)^<!-- picture: (pictures/[a-z0-9-]+\.svg) -->$`)
	embedded    = regexp.MustCompile(`!\[[^\]]{20,}\]\((pictures/[^)]+)\)`) // with a text for those who do not see it
)

// askForPicture is pasted into the reader's terminal: the functions and $KEY are those of the lesson.
const askForPicture = `ask "$OPERATOR_URL/console/keys/$(account)/payments/$KEY/picture.svg" -H "Authorization: Bearer $OPERATOR_KEY"`

// picturesAfter are the pictures that a page has between a block that is pasted and the next one.
func picturesAfter(page string, blocks []block, index int) (names []string) {
	end := len(page)
	for _, later := range blocks[index+1:] {
		if later.language == pasted {
			end = later.at
			break
		}
	}
	for _, found := range pictureMark.FindAllStringSubmatch(page[blocks[index].at:end], -1) {
		names = append(names, found[1])
	}
	return names
}

// comparePicture compares the console's picture with the one of the page, or writes it.
func comparePicture(t *testing.T, reader *terminal, page, name string) {
	t.Helper()
	got, failed, err := reader.paste(askForPicture)
	if err != nil || len(failed) > 0 || !strings.HasPrefix(got, "<svg ") {
		t.Errorf("%s: no picture: %v\n%s", name, err, got)
		return
	}
	file := filepath.Join(root, path.Dir(page), name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	switch {
	case err == nil && normalPicture(got) == normalPicture(string(want)):
	case *update:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Error(err)
	default:
		t.Errorf("%s: the console draws\n%s\nthe page shows\n%s\nif the new picture is right: cd lab && go test ./lessons -run 'Shown/%s' -update",
			name, normalPicture(got), normalPicture(string(want)), nameOf(page))
	}
}

// cutID is an id at the end of a label that was too long for its arrow.
var cutID = regexp.MustCompile(`\b(ch|re|pay)_[0-9a-z]*…`)

func normalPicture(svg string) string {
	return normal(cutID.ReplaceAllString(svg, "${1}_<id>…"))
}

// These lessons are stories of one key.
var withPicture = regexp.MustCompile(`^course/lessons/0[5-9]-`)

func TestPicturesAreEmbeddedWhereTheyAreMade(t *testing.T) {
	t.Parallel()
	var used []string
	for _, page := range lessonPages(t) {
		text := outsideOfBlocks(readFile(t, page))
		made, shown := namesIn(pictureMark, text), namesIn(embedded, text)
		if !slices.Equal(made, shown) {
			t.Errorf("%s makes the pictures %q, and embeds %q (each needs a text of at least 20 characters)", page, made, shown)
		}
		if withPicture.MatchString(page) && len(made) == 0 {
			t.Errorf("%s has no picture", page)
		}
		used = append(used, made...)
	}
	files, err := filepath.Glob(filepath.Join(root, "course/lessons/pictures/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(used, "pictures/"+filepath.Base(file)) {
			t.Errorf("no lesson makes %s", file)
		}
	}
}

func namesIn(mark *regexp.Regexp, text string) (names []string) {
	for _, found := range mark.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestPictureBelongsToTheBlockBeforeIt(t *testing.T) {
	t.Parallel()
	const page = "```sh\npay\n```\n```text\n201\n```\n<!-- picture: pictures/06-a.svg -->\n![a](b)\n```psql\nx\n```\n" +
		"<!-- picture: pictures/06-b.svg -->\n```sh\nstatus\n```\n```sh\nend\n```\n<!-- picture: pictures/06-c.svg -->\n"
	blocks, err := parseBlocks(page)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, b := range blocks {
		if b.language == pasted {
			got = append(got, fmt.Sprint(picturesAfter(page, blocks, i)))
		}
	}
	want := []string{"[pictures/06-a.svg pictures/06-b.svg]", "[]", "[pictures/06-c.svg]"}
	if !slices.Equal(got, want) {
		t.Errorf("the pictures are %q, want %q", got, want)
	}
	const drawn = `<title>succeeded: 12.00 USD, ch_abc…</title> <text>06:10:20.148</text>`
	if normalPicture(drawn) != normalPicture(strings.NewReplacer("ch_abc", "ch_xy2z", "148", "149").Replace(drawn)) {
		t.Error("an id or a time makes a difference")
	}
	if normalPicture(drawn) == normalPicture(strings.Replace(drawn, "succeeded", "declined", 1)) {
		t.Error("an outcome makes no difference")
	}
}
