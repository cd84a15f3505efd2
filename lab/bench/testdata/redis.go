package payments

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"payonce/internal/idempotency"
)

// A client of Redis, as small and as quick as it can be: a few connections over a Unix socket; who finds none free waits, and the first of those
// who wait takes the others along, in one write and one read. Whatever goes wrong is a miss.

// redisPatience is the longest that an answer may take. Without it, a Redis that hangs would hang every payment.
const redisPatience = 250 * time.Millisecond

// redisLines is how many connections there are: of 1, 2, 4 and 8 the best, at 8 and at 64 clients.
const redisLines = 8

// redisBatch is the most that go together.
const redisBatch = 64

type redis struct {
	socket string

	mu      sync.Mutex
	free    []*redisLine
	waiting []*redisCall
}

// redisLine is a connection, or the place of one.
type redisLine struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

type redisCall struct {
	request []byte
	reply   []byte // nil is a miss
	turn    chan *redisLine
}

func newRedis(socket string) *redis {
	r := &redis{socket: socket}
	for range redisLines {
		r.free = append(r.free, &redisLine{})
	}
	return r
}

func (r *redis) get(_ context.Context, name string) (kept, bool) {
	reply := r.do(command("GET", name))
	if reply == nil {
		return kept{}, false
	}
	return unpack(reply)
}

// put does not keep the client waiting.
func (r *redis) put(name string, k kept) {
	left := time.Until(k.expires).Milliseconds()
	if left > 0 {
		go r.do(command("SET", name, string(pack(k)), "PX", strconv.FormatInt(left, 10)))
	}
}

// do sends a command, maybe together with others, and returns the string that comes back.
func (r *redis) do(request []byte) []byte {
	call := &redisCall{request: request}
	line := r.enter(call)
	if line == nil {
		if line = <-call.turn; line == nil {
			return call.reply // another caller has sent it
		}
	}
	calls := r.gather(call)
	if line.exchange(r.socket, calls) != nil && line.conn != nil {
		_ = line.conn.Close()
		line.conn = nil
	}
	for _, each := range calls[1:] {
		each.turn <- nil
	}
	r.leave(line)
	return call.reply
}

func (r *redis) enter(c *redisCall) *redisLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		line := r.free[n-1]
		r.free = r.free[:n-1]
		return line
	}
	c.turn = make(chan *redisLine, 1)
	r.waiting = append(r.waiting, c)
	return nil
}

func (r *redis) gather(leader *redisCall) []*redisCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), redisBatch-1)
	calls := append(append(make([]*redisCall, 0, n+1), leader), r.waiting[:n]...)
	r.waiting = append(r.waiting[:0], r.waiting[n:]...)
	return calls
}

func (r *redis) leave(line *redisLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.free = append(r.free, line)
		return
	}
	next := r.waiting[0]
	r.waiting = append(r.waiting[:0], r.waiting[1:]...)
	next.turn <- line
}

// exchange sends all requests at once and reads as many replies.
func (l *redisLine) exchange(socket string, calls []*redisCall) error {
	if l.conn == nil {
		conn, err := net.DialTimeout("unix", socket, redisPatience)
		if err != nil {
			return err
		}
		l.conn, l.in = conn, bufio.NewReaderSize(conn, 64<<10)
	}
	l.out = l.out[:0]
	for _, c := range calls {
		l.out = append(l.out, c.request...)
	}
	if err := l.conn.SetDeadline(time.Now().Add(redisPatience)); err != nil {
		return err
	}
	if _, err := l.conn.Write(l.out); err != nil {
		return err
	}
	for _, c := range calls {
		reply, err := readReply(l.in)
		if err != nil {
			return err
		}
		c.reply = reply
	}
	return nil
}

// command is RESP: an array of strings, each behind its length.
func command(words ...string) []byte {
	b := append(strconv.AppendInt([]byte{'*'}, int64(len(words)), 10), '\r', '\n')
	for _, w := range words {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(w)), 10), '\r', '\n')
		b = append(append(b, w...), '\r', '\n')
	}
	return b
}

// readReply reads a string, nothing ($-1), or a word like +OK, which is nothing as well.
func readReply(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if line[0] == '+' {
		return nil, nil
	}
	if line[0] != '$' || len(line) < 4 {
		return nil, errors.New("Redis answers " + string(line))
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < 0 {
		return nil, err
	}
	reply := make([]byte, n+2)
	_, err = io.ReadFull(in, reply)
	return reply[:n], err
}

// pack writes fingerprint, expiry, status, version, two texts behind their lengths, and the body.
func pack(k kept) []byte {
	b := make([]byte, 0, 128+len(k.response.Body))
	b = append(b, k.fingerprint[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(k.expires.UnixMicro()))
	b = binary.BigEndian.AppendUint16(b, uint16(k.response.Status))
	b = binary.BigEndian.AppendUint16(b, uint16(k.response.SchemaVersion))
	for _, text := range []string{k.response.ContentType, k.response.Location} {
		b = append(append(b, byte(len(text))), text...)
	}
	return append(b, k.response.Body...)
}

func unpack(b []byte) (k kept, ok bool) {
	const head = len(k.fingerprint) + 8 + 2 + 2
	if len(b) < head {
		return k, false
	}
	b = b[copy(k.fingerprint[:], b):]
	k.expires = time.UnixMicro(int64(binary.BigEndian.Uint64(b)))
	k.response = idempotency.Response{Status: int(binary.BigEndian.Uint16(b[8:])), SchemaVersion: int(binary.BigEndian.Uint16(b[10:]))}
	b = b[12:]
	for _, text := range []*string{&k.response.ContentType, &k.response.Location} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return k, false
		}
		n := int(b[0])
		*text, b = string(b[1:1+n]), b[1+n:]
	}
	k.response.Body = b
	return k, true
}
