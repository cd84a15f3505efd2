package events

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"payonce/internal/cardnumber"
	"payonce/internal/problem"
)

// NewEndpoint is what a merchant says of a new endpoint.
type NewEndpoint struct {
	URL         string
	Description string
	Types       []string
}

// Check says what is wrong with a new endpoint.
func (r *Registry) Check(n NewEndpoint) (bad []problem.Detail) {
	if err := r.Addresses.CheckURL(n.URL); err != nil {
		bad = append(bad, problem.AtPointer("/url", err.Error()))
	}
	for _, of := range []struct{ place, text string }{{"/url", n.URL}, {"/description", n.Description}} {
		if cardnumber.In(of.text) {
			bad = append(bad, problem.AtPointer(of.place, "must not hold a card number"))
		}
	}
	if utf8.RuneCountInString(n.Description) > maxDescription ||
		strings.ContainsFunc(n.Description, unicode.IsControl) {
		bad = append(bad, problem.AtPointer("/description",
			fmt.Sprintf("must be at most %d characters, and no control characters", maxDescription)))
	}
	if len(n.Types) > len(types) {
		return append(bad, problem.AtPointer("/eventTypes", fmt.Sprintf("must be at most %d types", len(types))))
	}
	for i, t := range n.Types {
		place := fmt.Sprintf("/eventTypes/%d", i)
		switch {
		case !slices.Contains(types, t):
			bad = append(bad, problem.AtPointer(place, "must be one of "+strings.Join(types, ", ")))
		case slices.Contains(n.Types[:i], t):
			bad = append(bad, problem.AtPointer(place, "is given twice"))
		}
	}
	return bad
}
