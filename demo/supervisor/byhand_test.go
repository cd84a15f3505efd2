package supervisor

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const byHand = "../../docs/by_hand.md"

// patient makes the long tour's pauses longer by a half: they are for the reconciler, and a machine that runs all tests
// at once is slower than a reader's. What is answered after a pause is the same after a longer one.
const patient = "sleep() { command sleep $(($1 * 3 / 2)); }\n"

func TestLongTourAnswersAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "tour", "answers")
}

func TestRefundsByHandAnswerAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "refunds", "refunds answers")
}

func TestEventsByHandAnswerAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "events", "events answers")
}

func TestWebhookByHandAnswersAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "webhook", "webhook answers", "openssl")
}

func TestStripesWebhookByHandAnswersAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "stripe", "stripe answers", "openssl")
}

func TestStripesDialectByHandAnswersAsShown(t *testing.T) {
	t.Parallel()
	answersAsShownIn(t, []string{inStripesDialect}, "two steps", "two steps answers", "paste")
}

// The page of the API has the same recipes.
func TestDocsHaveTheWebhooksByHand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(byHand)
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../internal/httpapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"webhook", "stripe"} {
		recipe, _ := block(t, string(page), name)
		const margin = "        "
		if indented := margin + strings.ReplaceAll(strings.TrimSpace(recipe), "\n", "\n"+
			margin); !strings.Contains(string(document), indented) {
			t.Errorf("openapi.yaml lacks this, as a part of the webhook's description:\n%s", indented)
		}
	}
}

func answersAsShown(t *testing.T, paste, answers string, tools ...string) {
	t.Helper()
	answersAsShownIn(t, nil, paste, answers, tools...)
}

// answersAsShownIn is answersAsShown in a demo with settings.
func answersAsShownIn(t *testing.T, settings []string, paste, answers string, tools ...string) {
	t.Helper()
	page, err := os.ReadFile(byHand)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := block(t, string(page), paste)
	shown, _ := block(t, string(page), answers)
	got := pastedIn(t, settings, "set -e\n"+patient+text, tools...)
	if *update {
		writing.Lock()
		defer writing.Unlock()
		page, err := os.ReadFile(byHand) // again: another test may have written its answers
		if err != nil {
			t.Fatal(err)
		}
		shown, at := block(t, string(page), answers)
		write(t, byHand, string(page)[:at]+got+string(page)[at+len(shown):])
		return
	}
	if normal(got) != normal(shown) {
		t.Errorf("the %s answers\n%s\nthe page shows\n%s\n%s", paste, got, shown, toUpdate)
	}
}

// block finds the fenced block behind a marker, and where it begins.
func block(t *testing.T, page, name string) (text string, at int) {
	t.Helper()
	match := regexp.MustCompile("(?s)<!-- " + name + " -->\n```[a-z]*\n(.*?)```\n").FindStringSubmatchIndex(page)
	if match == nil {
		t.Fatalf("the page has no block %q", name)
	}
	return page[match[2]:match[3]], match[2]
}
