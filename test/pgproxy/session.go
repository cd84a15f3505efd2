package pgproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// maxRoundsUnanswered bounds how far a client may send ahead of the answers.
const maxRoundsUnanswered = 256

// session is one connection of a client, with the one to the server that stands behind it.
type session struct {
	proxy          *Proxy
	client, server net.Conn
	unanswered     chan *round // sent to the server, in the order in which it will answer
	done           chan struct{}
	once           sync.Once
	cancelKey      atomic.Pointer[string] // by which a request to cancel names this session
	left           atomic.Bool            // the client was cut off while its round was held
}

// round is what a client sends before it waits.
type round struct {
	bytes   []byte
	queries []string // executed in it
	event   *Event
}

func newSession(p *Proxy, client, server net.Conn) *session {
	return &session{
		proxy: p, client: client, server: server,
		unanswered: make(chan *round, maxRoundsUnanswered), done: make(chan struct{}),
	}
}

// cut ends the session at once, on both sides.
func (s *session) cut() {
	s.once.Do(func() {
		close(s.done)
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

// backend is the process id of the server's side, or 0 before it is known. The server sends it with the secret that a
// request to cancel has to name.
func (s *session) backend() uint32 {
	if key := s.cancelKey.Load(); key != nil && len(*key) >= 4 {
		return binary.BigEndian.Uint32([]byte(*key))
	}
	return 0
}

// run returns when both directions have ended.
func (s *session) run() {
	from := bufio.NewReader(s.client)
	if !s.open(from) {
		s.cut()
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		s.forwardAnswers()
		s.cut()
	})
	s.forwardRounds(from)
	// The client has gone. What it has sent is on its way all the same: the server works it off, finds the end of the
	// stream, and closes.
	if half, ok := s.server.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		answers.Wait()
	}
	s.cut()
	answers.Wait()
	for len(s.unanswered) > 0 {
		(<-s.unanswered).drop()
	}
}

// drop notes that a round which was released will have no answer: the session has ended.
func (r *round) drop() {
	if r.event != nil && r.event.do == HoldBefore {
		r.event.dropped <- struct{}{}
	}
}

// Codes of a first message, where other messages have a version.
const (
	codeSSL    = 80877103
	codeGSS    = 80877104
	codeCancel = 80877102
)

// open passes the first message on. It has no type, unlike all the others.
func (s *session) open(from *bufio.Reader) bool {
	for {
		raw, err := readFramed(from, 0)
		if err != nil || len(raw) < 8 {
			return false
		}
		switch binary.BigEndian.Uint32(raw[4:]) {
		case codeSSL, codeGSS:
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return false
			}
		case codeCancel:
			// A connection of its own for a request to cancel: no answer but its end. A client whose connection breaks
			// sends one in its own time. Of one that was cut off it is dropped: it would hit the round that the test
			// has just released, or miss it, as it happens.
			if s.proxy.cutOff(string(raw[8:])) {
				return false
			}
			if _, err := s.server.Write(raw); err == nil {
				_, _ = io.Copy(io.Discard, s.server)
			}
			return false
		default:
			_, err = s.server.Write(raw)
			return err == nil
		}
	}
}

// forwardRounds collects what the client sends, one round at a time, until it goes or the round is cut off.
func (s *session) forwardRounds(from *bufio.Reader) {
	names := newNames(s.proxy.learned)
	var next round
	for {
		m, err := readMessage(from)
		if err != nil {
			return
		}
		next.bytes = append(next.bytes, m.raw...)
		executed, ok := names.follow(m)
		if !ok {
			return
		}
		next.queries = append(next.queries, executed...)
		switch m.kind {
		case kindParse, kindBind, kindDescribe, kindExecute, kindClose:
			continue
		case kindSync, kindQuery:
			r := next
			next = round{}
			if !s.send(&r) {
				return
			}
		default:
			// Flush, passwords, COPY data, Terminate: no moment to hold, nor can they wait.
			if _, err := s.server.Write(next.bytes); err != nil {
				return
			}
			next.bytes = nil
		}
	}
}

// send passes a round on, unless its event says otherwise.
func (s *session) send(r *round) bool {
	r.event = s.proxy.arrived(s, r)
	if e := r.event; e != nil {
		switch e.do {
		case CutBefore:
			s.cut()
			e.reached <- struct{}{}
			return false
		case HoldBefore:
			if !e.hold(s) {
				return false
			}
		case DropAcknowledgement, HoldAfter:
		}
	}
	// First the note, then the bytes: the answer must find it.
	select {
	case s.unanswered <- r:
	case <-s.done:
		return false
	}
	_, err := s.server.Write(r.bytes)
	return err == nil
}

// forwardAnswers passes on what the server sends, and keeps the answer to a round whose event asks for that, until the
// server ends the session. A client that has gone does not stop it.
func (s *session) forwardAnswers() {
	from := bufio.NewReader(s.server)
	var current *round
	var kept []byte
	for {
		m, err := readMessage(from)
		if err != nil {
			if current != nil {
				current.drop()
			}
			return
		}
		if m.kind == kindBackendKeyData {
			key := string(m.raw[5:])
			s.cancelKey.Store(&key)
		}
		if current == nil {
			select {
			case current = <-s.unanswered:
			default: // the start of the session, or a word in between
			}
		}
		if current == nil || current.event == nil || current.event.do == HoldBefore {
			_, _ = s.client.Write(m.raw)
		} else {
			kept = append(kept, m.raw...)
		}
		if current != nil && m.kind == kindReadyForQuery {
			if !s.answered(current, kept) {
				return
			}
			current, kept = nil, nil
		}
	}
}

// answered ends a round: the server has said all that it has to say, so whatever was to be committed is.
func (s *session) answered(r *round, kept []byte) bool {
	s.proxy.noteAnswer(r)
	e := r.event
	if e == nil {
		return true
	}
	switch e.do {
	case HoldBefore:
		e.landed <- struct{}{}
	case HoldAfter:
		if !e.hold(s) {
			return false
		}
		_, _ = s.client.Write(kept)
	case DropAcknowledgement:
		s.cut()
		e.reached <- struct{}{}
		return false
	case CutBefore: // has no answer
	}
	return true
}
