package load

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// idLength is that of a UUID as text.
const idLength = 36

// ids makes UUIDs of version 7 (RFC 9562, section 5.7), which is what clients are told to use as keys. The generator is
// seeded by the system, so that two runs, or two clients, never share one.
type ids struct{ random *rand.ChaCha8 }

func newIDs() ids {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails: its documentation
	return ids{rand.NewChaCha8(seed)}
}

// write puts a fresh id of that time into the place.
func (s ids) write(place []byte, at time.Time) {
	const version, variant = 0x7000, 0x8000_0000_0000_0000
	high := uint64(at.UnixMilli())<<16 | version | s.random.Uint64()&0x0fff
	low := variant | s.random.Uint64()>>2
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], high)
	binary.BigEndian.PutUint64(raw[8:], low)
	hex.Encode(place[0:8], raw[0:4])
	place[8] = '-'
	hex.Encode(place[9:13], raw[4:6])
	place[13] = '-'
	hex.Encode(place[14:18], raw[6:8])
	place[18] = '-'
	hex.Encode(place[19:23], raw[8:10])
	place[23] = '-'
	hex.Encode(place[24:36], raw[10:16])
}
