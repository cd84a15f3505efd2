package idempotency

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// steps names the lines of a timeline.
func steps(events []Event) []string {
	var lines []string
	for _, e := range events {
		lines = append(lines, e.Actor+": "+string(e.From)+" > "+string(e.To))
	}
	return lines
}

func TestTimelineTellsTheHappyPathToo(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	finished := created.Add(time.Second)
	after := func(d time.Duration) time.Time { return created.Add(d) }
	answered := KeyRow{Created: created, Finished: &finished, Attempt: 1, Generation: 1, Response: &Response{}}
	for name, row := range map[string]struct {
		record  KeyRow
		written []Event
		want    []string
	}{
		"in progress": {KeyRow{Created: created, Attempt: 1, Generation: 1}, nil, []string{"request:  > in_progress"}},
		"completed":   {answered, nil, []string{"request:  > in_progress", "owner: in_progress > completed"}},
		"confirmed afterwards": {
			answered,
			[]Event{{At: after(2 * time.Second), Actor: "webhook", From: CompletedStatus, To: CompletedStatus,
				Generation: 1}},
			[]string{"request:  > in_progress", "owner: in_progress > completed", "webhook: completed > completed"},
		},
		"completed by others": {
			answered,
			[]Event{
				{At: after(time.Millisecond), Actor: "owner", From: InProgressStatus, To: UnknownStatus, Generation: 1},
				{At: finished, Actor: "webhook", From: UnknownStatus, To: CompletedStatus, Generation: 1},
			},
			[]string{"request:  > in_progress", "owner: in_progress > unknown", "webhook: unknown > completed"},
		},
		"a later generation": {
			KeyRow{Created: created, Finished: &finished, Attempt: 1, Generation: 2, Response: &Response{}},
			[]Event{
				{At: after(time.Millisecond), Actor: "webhook", From: UnknownStatus, To: CompletedStatus,
					Generation: 1},
				{At: after(2 * time.Millisecond), Actor: "request", From: ExpiredStatus, To: InProgressStatus,
					Generation: 2},
			},
			[]string{"request:  > in_progress", "webhook: unknown > completed", "request: expired > in_progress",
				"owner: in_progress > completed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeline := row.record.Timeline(row.written)
			if diff := cmp.Diff(row.want, steps(timeline)); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if g := timeline[0].Generation; g != 1 {
				t.Errorf("the timeline begins in generation %d", g)
			}
		})
	}
}
