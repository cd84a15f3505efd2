package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON object by its members, each in canonical form. All of them are compared: a member that should not
// be there is as wrong as one that is lost.
type document map[string]string

// readDocument reads an answer. One that is no object has no members.
func readDocument(body []byte) document {
	members := map[string]jsontext.Value{}
	if json.Unmarshal(body, &members) != nil {
		return nil
	}
	d := document{}
	for name, value := range members {
		d[name] = string(canonical(value))
	}
	return d
}

// set adds a member. What is empty is left out, as the API leaves out what a payment does not have.
func (d document) set(name string, value any) {
	raw, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("write %s: %v", name, err)) // strings, numbers and JSON that was read before
	}
	if text := string(canonical(raw)); text != `""` && text != "null" && text != "{}" {
		d[name] = text
	}
}

// text is a member that is a string.
func (d document) text(name string) (s string) {
	_ = json.Unmarshal([]byte(d[name]), &s) // what is no string is none of ours
	return s
}

// member is a member as JSON, or nothing.
func (d document) member(name string) []byte { return []byte(d[name]) }

// disputesIn are the disputes that a payment shows.
func disputesIn(shown document) (all []document) {
	var disputes []jsontext.Value
	_ = json.Unmarshal(shown.member("disputes"), &disputes) // without the member, there are none
	for _, raw := range disputes {
		all = append(all, readDocument(raw))
	}
	return all
}

// differs names the first member, by name, in which an answer is not what it has to be.
func (d document) differs(got document) string {
	if got == nil {
		return "it is no JSON object"
	}
	for _, name := range slices.Sorted(maps.Keys(mergedNames(d, got))) {
		want, wanted := d[name]
		has, there := got[name]
		switch {
		case !there:
			return fmt.Sprintf("%s is lost, which is %s", name, want)
		case !wanted:
			return fmt.Sprintf("%s is %s, and there is none", name, has)
		case has != want:
			return fmt.Sprintf("%s is %s, and has to be %s", name, has, want)
		}
	}
	return ""
}

func mergedNames(a, b document) document {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// filled leaves empty members out, as set does.
func (d document) filled() document {
	kept := maps.Clone(d)
	maps.DeleteFunc(kept, func(_, value string) bool { return value == `""` })
	return kept
}

// without leaves members out.
func (d document) without(names ...string) document {
	kept := maps.Clone(d)
	for _, name := range names {
		delete(kept, name)
	}
	return kept
}

// stampOf writes a time as the API does.
func stampOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// decimal writes an amount in the major unit, by ISO 4217 and not by the code under test: of the currencies that the
// labs pay in, only these do not have two digits.
func decimal(currency string, minor int64) string {
	digits, unit := 2, int64(100)
	switch currency {
	case "JPY", "KRW":
		return strconv.FormatInt(minor, 10)
	case "BHD", "KWD":
		digits, unit = 3, 1000
	}
	return fmt.Sprintf("%d.%0*d", minor/unit, digits, minor%unit)
}
