package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

// history is written as lines: "send paid A" is a request of the step send, what it was told, and the bytes; "charge",
// "decline" and "other charge" are entries of the ledger; "life" ends the key's time.
func history(t *testing.T, lines string, kinds ...plan.Kind) Run {
	t.Helper()
	r := Run{Case: plan.Case{Intents: []plan.Intent{{}}}, Amounts: []int64{500}}
	for _, k := range kinds {
		r.Case.Steps = append(r.Case.Steps, plan.Step{Kind: k})
	}
	at, life := time.Unix(0, 0), 0
	for line := range strings.SplitSeq(lines, "; ") {
		at = at.Add(time.Second)
		words := strings.Fields(line)
		switch words[0] {
		case "charge", "decline":
			r.Charges = append(r.Charges, Charge{At: at, Succeeded: words[0] == "charge"})
		case "stranger":
			r.Charges = append(r.Charges, Charge{At: at, Succeeded: true, Other: true})
		case "life":
			life++
		default:
			body := ""
			if len(words) > 2 {
				body = words[2]
			}
			r.Answers = append(r.Answers, Answer{Step: plan.Kind(words[0]), Asked: at,
				Heard: at.Add(time.Millisecond), Meaning: profile.Meaning(strings.Trim(words[1], "-")),
				Body: []byte(body), Life: life})
		}
	}
	return r
}

func TestWhatBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"charge; send paid A; again paid A":                       "",
		"charge; charge; send paid A":                             "once",
		"send paid A":                                             "truth",
		"decline; send paid A":                                    "truth",
		"charge; send declined A":                                 "truth",
		"charge; send failed A":                                   "truth",
		"decline; send declined A; again declined A":              "",
		"send failed A; again failed A":                           "",
		"charge; send paid A; again pending B; again paid A":      "stays",
		"charge; send paid A; again pending B":                    "stays",
		"charge; send paid A; again refused B":                    "stays",
		"charge; send paid A; again again B":                      "",
		"charge; send declined A; again paid B":                   "stays bytes",
		"charge; send paid A; again again B; again paid A":        "",
		"charge; send paid A; again - B; again paid A":            "speaks",
		"charge; send pending B; again paid A; again paid A":      "",
		"charge; send paid A; again paid B":                       "bytes",
		"charge; send paid A; look paid B":                        "",
		"charge; send paid A; other refused X; again paid A":      "",
		"charge; send paid A; other paid A; again paid A":         "refuses",
		"charge; send paid A; other pending X; again paid A":      "refuses",
		"charge; other pending X; send paid A; again paid A":      "",
		"charge; stranger; send paid A; other again X":            "refuses",
		"charge; send paid A; other again X; again paid A":        "refuses",
		"charge; read paid B; send paid A; again paid A":          "",
		"charge; send paid A; life; charge; again paid B":         "",
		"charge; send paid A; life; again paid A":                 "forgets",
		"charge; send paid A; life; again paid B":                 "forgets",
		"charge; send paid A; life; again pending B":              "forgets",
		`charge; send paid {"a":1}; life; again paid {"a":1.0}`:   "forgets",
		"charge; charge; charge; send paid A; life; again paid B": "once",
	} {
		var kinds []plan.Kind
		for _, k := range []plan.Kind{plan.Other} {
			if strings.Contains(lines, "; "+string(k)) {
				kinds = append(kinds, k)
			}
		}
		if strings.Contains(lines, "life") {
			kinds = append(kinds, plan.Expire, plan.Renew)
		}
		var broken []string
		for _, v := range Judge(history(t, lines, kinds...)) {
			if v.Why != "" {
				broken = append(broken, string(v.Invariant))
			}
		}
		if got := strings.Join(broken, " "); got != want {
			t.Errorf("%s: broken is %q, want %q", lines, got, want)
		}
	}
}

func TestKeysThatDoNotEnd(t *testing.T) {
	t.Parallel()
	r := history(t, "send pending A; until-final pending A; look pending A", plan.UntilFinal, plan.Look)
	r.NotFinal, r.Unseen = []int{0}, []int{0}
	var broken []string
	for _, v := range Judge(r) {
		if v.Why != "" {
			broken = append(broken, fmt.Sprint(v.Invariant))
		}
	}
	if strings.Join(broken, " ") != "ends found" {
		t.Errorf("broken is %v", broken)
	}
	for lines, want := range map[string]Invariant{
		"charge; send paid A; until-final pending B": Stays,
		"charge; send paid A; until-final refused B": Stays,
		"charge; send paid A; until-final again B":   Ends,
		"charge; send paid A; until-final - B":       Ends,
	} {
		r := history(t, lines, plan.UntilFinal)
		r.NotFinal = []int{0}
		for _, v := range Judge(r) {
			if is := v.Why != ""; (v.Invariant == Stays || v.Invariant == Ends) && is != (v.Invariant == want) {
				t.Errorf("%s: %s is broken: %t", lines, v.Invariant, is)
			}
		}
	}
}

func TestServerThatDoesNotFollowOthers(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]int{"": 0, "shown as nothing": 1} {
		r := history(t, "charge; send paid A", plan.Shown)
		r.Unfollowed = map[int]string{0: why}
		broken, tried := 0, false
		for _, v := range Judge(r) {
			tried = tried || v.Invariant == Follows
			if v.Invariant == Follows && v.Why == why && why != "" {
				broken++
			}
		}
		if broken != want || !tried {
			t.Errorf("%q: broken %d, tried %t", why, broken, tried)
		}
	}
}

// A payment that only one case is about says nothing of the invariants of another case.
func TestVerdictsAreAboutWhatWasTried(t *testing.T) {
	t.Parallel()
	shown := map[Invariant]bool{}
	for _, v := range Judge(history(t, "charge; send paid A")) {
		shown[v.Invariant] = true
	}
	if len(shown) != 3 || !shown[Once] || !shown[Truth] || !shown[Speaks] {
		t.Errorf("shown: %v", shown)
	}
	for _, i := range Invariants() {
		if i.Says == "" {
			t.Errorf("%s says nothing", i.Name)
		}
	}
}
