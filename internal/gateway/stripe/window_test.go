package stripe

import "testing"

// A second that two windows have is read twice, and one that none has is never read.
func TestWindowEndsWhereTheNextOneBegins(t *testing.T) {
	t.Parallel()
	const from, width = stripeBegan, 10
	w := window{from, width}
	for created, has := range map[int64]bool{
		from - 1: false, from: true, from + 9: true, from + 10: false, 1 << 40: false,
	} {
		if w.has(created) != has {
			t.Errorf("%d seconds after its beginning: %t", created-from, !has)
		}
	}
	if next := w.following(0); next.has(from+9) || !next.has(from+10) {
		t.Errorf("the next window is %+v", next)
	}
	if newest := w.unbounded(); newest.has(from-1) || !newest.has(1<<40) {
		t.Error("the newest window has an end, or no beginning")
	}
}

func TestOnlyASecondMayHaveManyPages(t *testing.T) {
	t.Parallel()
	for width, pages := range map[int64]int{1: secondPages, 2: windowPages} {
		if got := (window{stripeBegan, width}).pages(); got != pages {
			t.Errorf("%d seconds: %d pages", width, got)
		}
	}
}

func TestNextWindowIsWiderWhereFewObjectsAre(t *testing.T) {
	t.Parallel()
	for objects, width := range map[int]int64{sparse: 20, sparse + 1: 10} {
		if got := (window{stripeBegan, 10}).following(objects); got.width != width || got.from != stripeBegan+10 {
			t.Errorf("after %d objects: %+v", objects, got)
		}
	}
}

func TestOnlyWhatIsExpandedIsAskedForSo(t *testing.T) {
	t.Parallel()
	for expand, asked := range map[string]bool{"": false, "data.source": true} {
		if query := (source{expand: expand}).query(window{}); query.Has("expand[]") != asked {
			t.Errorf("%q: %v", expand, query)
		}
	}
}
