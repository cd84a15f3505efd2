package windows

import "slices"

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
	Words
	Token string // the test token of a payment that comes here by itself
	at    place
}

// Words say of a window what docs/crash_windows.md says.
type Words struct{ Happened, Lost, FoundBy string }

// Process is whose message is held at the window.
func (w Window) Process() Process { return w.at.who }

// WebhookMayComeFirst says that the PSP has charged and the key has no outcome, so that the PSP's webhook may complete
// the key while the payment is held.
func (w Window) WebhookMayComeFirst() bool { return w.ID == "3b" || w.ID == "3c" }

// Group is a section of docs/crash_windows.md.
type Group struct {
	Title   string
	Windows []Window
}

// Groups lists the windows of a dialect as docs/crash_windows.md does.
func Groups(d Dialect) []Group {
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
func Windows(d Dialect) (all []Window) {
	for _, g := range Groups(d) {
		all = append(all, g.Windows...)
	}
	return all
}

// ByID finds a window.
func ByID(d Dialect, id string) (w Window, known bool) {
	all := Windows(d)
	i := slices.IndexFunc(all, func(w Window) bool { return w.ID == id })
	if i < 0 {
		return Window{}, false
	}
	return all[i], true
}
