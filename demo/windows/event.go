package windows

import (
	"bytes"
	"regexp"
	"sync/atomic"

	"payonce/test/pgproxy"
)

// naming tells whether a round has all the words. A text stands in a round as it is.
func naming(words ...string) func(round []byte) bool {
	return func(round []byte) bool {
		for _, word := range words {
			if !bytes.Contains(round, []byte(word)) {
				return false
			}
		}
		return true
	}
}

// namingEvent tells which rounds name the PSP's webhook about the key. It learns the webhook's id when the API stores
// the webhook: that round has both the id and the key. Nothing is held for it, and forget ends it.
func namingEvent(key string, api *pgproxy.Proxy) (ours func(round []byte) bool, forget func()) {
	id, stores := regexp.MustCompile(`evt_[0-9A-Za-z]+`), naming(key)
	var learned atomic.Pointer[string]
	stored := api.OnWhere("StoreEvent", func(round []byte) bool {
		if found := string(id.Find(round)); found != "" && stores(round) {
			learned.Store(&found)
		}
		return false
	}, pgproxy.HoldBefore)
	ours = func(round []byte) bool {
		event := learned.Load()
		return event != nil && naming(*event)(round)
	}
	return ours, func() { api.Forget(stored) }
}
