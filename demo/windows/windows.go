package windows

import (
	"slices"
	"strings"

	"payonce/docs"
)

// Process is a process whose messages can be held. Its value follows "the" in a sentence.
type Process string

// The processes.
const (
	API        Process = "API"
	Reconciler Process = "reconciler"
)

// Window is a place on the path of a payment at which it can be stopped.
type Window struct {
	// ID is the number of the window in docs/crash_windows.md. It has a letter where the window has several places.
	ID    string
	Place string // which step is done, and which is not
	Token string // the test token of a payment that comes here by itself
	at    place
}

// Words say of a window what docs/crash_windows.md says.
type Words struct{ Happened, Lost, FoundBy string }

// Words are those of the window's row.
func (w Window) Words() (words Words) {
	row := "| " + strings.TrimRight(w.ID, "abc")
	for line := range strings.Lines(docs.CrashWindows) {
		if cells := strings.Split(strings.ReplaceAll(line, "`", ""), " | "); cells[0] == row {
			words = Words{cells[1], cells[2], cells[3]}
		}
	}
	return words
}

// Process is whose message is held at the window.
func (w Window) Process() Process { return w.at.who }

// SendsInTime says that the API sends the charge after the window, and only if it was not stopped for too long.
func (w Window) SendsInTime() bool {
	return slices.Contains([]string{"1", "2", "27", "28"}, w.ID)
}

// Group is a section of docs/crash_windows.md.
type Group struct {
	Title   string
	Windows []Window
}

// Groups lists the windows at which a payment can be stopped, as docs/crash_windows.md does.
func (d Dialect) Groups() []Group {
	groups := []Group{
		{"A payment", slices.Concat(sent(), answered())},
		{"Webhooks", slices.Concat(ingested(), processed())},
		{"Sweeping and looking up", slices.Concat(claimed(), lookedUp())},
	}
	if !d.TwoSteps {
		return groups
	}
	groups = append(groups, Group{"A payment in two steps", inTwoSteps()})
	for _, g := range groups {
		for i := range g.Windows {
			g.Windows[i].at.object = true
		}
	}
	return groups
}

// Windows lists the windows of all groups.
func (d Dialect) Windows() (all []Window) {
	for _, g := range d.Groups() {
		all = append(all, g.Windows...)
	}
	return all
}

// ByID finds a window.
func (d Dialect) ByID(id string) (w Window, known bool) {
	all := d.Windows()
	i := slices.IndexFunc(all, func(w Window) bool { return w.ID == id })
	if i < 0 {
		return Window{}, false
	}
	return all[i], true
}

// Action is what a person does about a payment that is held.
type Action string

// The actions. Each of them ends the hold, but WebhookFirst.
const (
	GoOn                Action = "go-on"
	Kill                Action = "kill"
	Pause               Action = "pause"
	Cut                 Action = "cut"
	LoseAcknowledgement Action = "lose-acknowledgement"
	PSPFails            Action = "psp-500"
	WebhookFirst        Action = "webhook-first"
)

// Choice is an action with its words.
type Choice struct {
	Action       Action
	Label, Means string
}

// Choices are the actions that make sense at the window, the most usual ones first.
func (w Window) Choices() []Choice {
	who := string(w.at.who)
	choices := []Choice{
		{GoOn, "Go on", "Nothing fails."},
		{Kill, "kill -9 the " + who,
			"The message that is held is lost with the process. Another one starts after a second."},
	}
	pause := Choice{Pause, "Pause it for 5 seconds", "The " + who + " does nothing. The message goes on meanwhile."}
	cut := func(means string) Choice { return Choice{Cut, "Cut the connection", means} }
	fail := func(means string) Choice { return Choice{PSPFails, "PSP 500", "The " + who + " is told 500. " + means} }
	switch {
	case w.at.object && (w.at.call == charge || w.at.call == cancel):
		choices = append(choices, w.choicesOfObject(cut, fail)...)
	case w.at.call == lookup && w.at.before:
		choices = append(choices, cut("The question is lost. The reconciler asks again later."),
			fail("It asks again later."))
	case w.at.call == lookup:
		choices = append(choices, cut("The answer is lost. The reconciler asks again later."),
			fail("It asks again later."))
	case w.at.call == charge && w.at.before:
		choices = append(choices, cut("The charge is lost. The API cannot know that."),
			fail("The PSP has not charged."))
	case w.at.call == charge:
		choices = append(choices, cut("The answer is lost. The PSP has charged."), fail("The PSP has charged."))
	case w.at.before:
		choices = append(choices, cut("The statement never reaches the database."))
	default:
		choices = append(choices, Choice{LoseAcknowledgement, "Lose the acknowledgement", "The connection of the " +
			who + " breaks. The database has committed, and the " + who + " must find that out."})
	}
	choices = append(choices, pause)
	if w.ID == "3b" || w.ID == "3c" { // The PSP has charged, and the key has no outcome.
		choices = append(choices, Choice{WebhookFirst, "Let the webhook come first",
			"The payment stays held. The reconciler does not wait any more."})
	}
	return choices
}

// choicesOfObject are the further choices at a call about the PSP's object. The object says what has happened to it.
func (w Window) choicesOfObject(cut, fail func(means string) Choice) []Choice {
	switch {
	case w.at.call == cancel:
		return []Choice{cut("The object is not cancelled. The reconciler asks again later."), fail("It asks again later.")}
	case w.at.before:
		return []Choice{cut("The PSP has not charged. The API reads the object, and cancels it."),
			fail("It reads the object, and cancels it.")}
	}
	return []Choice{cut("The answer is lost. The PSP has charged, and the API reads that from the object."),
		fail("The PSP has charged, and the API reads that from the object.")}
}

func (w Window) allows(a Action) bool {
	return slices.ContainsFunc(w.Choices(), func(c Choice) bool { return c.Action == a })
}
