package console

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rows are the rows of a key and of its payment or refund.
type rows struct {
	Key, Movement columns
	Response      string
}

// columns are a row.
type columns []column

// column is a column of a row, in the words of the database.
type column struct{ Table, Name, Value string }

// Field names the column on its page.
func (c column) Field() string { return c.Table + " " + c.Name }

// value is what the column of this name has; "" without such a column.
func (r columns) value(name string) string {
	for _, c := range r {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// Changing are the columns that change while a key is used, and have something.
func (r columns) Changing() (some columns) {
	for _, c := range r {
		if c.Value != "" && slices.Contains(first(), c.Name) {
			some = append(some, c)
		}
	}
	return some
}

// hidden are columns that tell a reader nothing.
func hidden(name string) bool {
	return name == "tenant_id" || name == "operation" || name == "key" || name == "response_schema_version"
}

// first are the columns that change while a key is used, in the order in which a page shows them. All others follow.
func first() []string {
	return []string{
		"status", "attempt", "generation", "locked_until", "unknown_since", "reconcile_after", "lookup_failures",
		"dead_letter_hold", "response_status", "finished_at", "expires_at", // of a key
		// of a movement
		"psp_object_id", "psp_charge_id", "psp_refund_id", "decline_code", "amount_minor", "refunded_minor",
		"moved_outside_minor", "currency",
	}
}

// columnsOf are the members of a JSON object.
func columnsOf(table string, object []byte) (found columns) {
	d := jsontext.NewDecoder(strings.NewReader(string(object)))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return found
		}
		c := column{Table: table, Name: name.String()} // The token is valid only until the next one is read.
		value, err := d.ReadValue()
		if err != nil {
			return found
		}
		if !hidden(c.Name) {
			c.Value = plain(value)
			found = append(found, c)
		}
	}
	rank := func(c column) int {
		if i := slices.Index(first(), c.Name); i >= 0 {
			return i
		}
		return len(first())
	}
	slices.SortStableFunc(found, func(a, b column) int { return cmp.Compare(rank(a), rank(b)) })
	return found
}

// plain is a JSON value as psql would show it.
func plain(value jsontext.Value) string {
	switch value.Kind() {
	case 'n':
		return ""
	case '"':
		var text string
		if json.Unmarshal(value, &text) == nil {
			return text
		}
	}
	return value.String()
}
