package httpapi

import "fmt"

// listPage is a page of a list, as the client gets it.
type listPage[T any] struct {
	Data       []T    `json:"data"`
	HasMore    bool   `json:"hasMore"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// pageOf is a page with these rows. next is nil on the last page.
func pageOf[T any, C fmt.Stringer](rows []T, next *C) listPage[T] {
	page := listPage[T]{Data: rows, HasMore: next != nil}
	if next != nil {
		page.NextCursor = (*next).String()
	}
	return page
}
