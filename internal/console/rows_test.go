package console

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func TestColumnsAreThoseOfTheRow(t *testing.T) {
	t.Parallel()
	got := columnsOf("key", []byte(`{"key": "x", "status": "unknown", "attempt": 2, "finished_at": null, `+
		`"metadata": {"a": "b"}, "tenant_id": "acme"}`))
	want := columns{{"key", "status", "unknown"}, {"key", "attempt", "2"}, {"key", "finished_at", ""},
		{"key", "metadata", `{"a": "b"}`}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if columnsOf("movement", []byte("null")) != nil {
		t.Error("no row has columns")
	}
}

// The row is one of ours, and the texts in it are anybody's: each one is shown as it is.
func FuzzColumns(f *testing.F) {
	f.Add("status", "unknown")
	f.Add("", "\u202e<script>")
	f.Add("a\"b", "\x00")
	f.Fuzz(func(t *testing.T, name, value string) {
		object, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			t.Skip(err)
		}
		columns := columnsOf("key", object)
		if hidden(name) {
			return
		}
		if len(columns) != 1 || columns[0].Name != name || columns[0].Value != value {
			t.Errorf("%s is shown as %v", object, columns)
		}
	})
}
