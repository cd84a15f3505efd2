package wire_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/test/wait"
)

// The types of frames, and the codes of errors, that these tests use (RFC 9113, sections 6 and 7).
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7

	flagEndStream, flagAck, flagEndHeaders = 1, 1, 4

	codeProtocol, codeRefused, codeInternal = 1, 7, 2
)

// h2 is one HTTP/2 connection, as its server sees it.
type h2 struct{ net.Conn }

func (c h2) send(kind, flags byte, stream uint32, payload []byte) {
	frame := append(make([]byte, 9), payload...)
	binary.BigEndian.PutUint32(frame, uint32(len(payload))<<8|uint32(kind))
	frame[4] = flags
	binary.BigEndian.PutUint32(frame[5:], stream)
	_, _ = c.Write(frame)
}

// next is the stream of the next whole request. It acknowledges settings and pings that come before.
func (c h2) next() (stream uint32, ok bool) {
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return 0, false
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			return 0, false
		}
		kind, flags := head[3], head[4]
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			c.send(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			c.send(framePing, flagAck, 0, payload)
		case (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
			return binary.BigEndian.Uint32(head[5:]), true
		}
	}
}

// answer is a 201. 0x48 stands for the name :status (RFC 7541).
func (c h2) answer(stream uint32) {
	c.send(frameHeaders, flagEndHeaders, stream, append([]byte{0x48, 3}, "201"...))
	c.send(frameData, flagEndStream, stream, []byte(said))
}

// goAway says which stream is the last one that the server may have looked at.
func (c h2) goAway(last uint32) { c.send(frameGoAway, 0, 0, append(code(last), code(0)...)) }

func code(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// listenH2 gives each HTTP/2 connection to serve, and closes it afterwards.
func listenH2(t *testing.T, serve func(c h2)) (*listener, *x509.CertPool) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	config := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"},
		MinVersion: tls.VersionTLS12}
	l := listen(t, func(raw *net.TCPConn) {
		c := h2{tls.Server(raw, config)}
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		c.send(frameSettings, 0, 0, nil)
		serve(c)
	})
	l.url = "https" + l.url[len("http"):]
	return l, roots
}

func newH2Client(t *testing.T, url string, roots *x509.CertPool, edits ...func(*gateway.Limits)) *client {
	t.Helper()
	c := newClient(t, url, edits...)
	c.Trust(roots)
	return c
}

func TestHTTP2IsUsedWhereAPSPOffersIt(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.ContentLength != int64(len("canary-body")) {
			w.WriteHeader(http.StatusLengthRequired)
		}
		_, _ = io.WriteString(w, said)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := newH2Client(t, s.URL, roots)
	answered(t, c.post(), 200)
	answered(t, c.post(), 200)
}

// Whatever a PSP does to a request on a connection that was used before, even if it says that it has not looked at it:
// the transport does not send it again.
func TestTransportNeverSendsAgainOnHTTP2(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c h2, stream uint32){
		"closed":            func(c h2, _ uint32) { _ = c.Close() },
		"refused":           func(c h2, stream uint32) { c.send(frameReset, 0, stream, code(codeRefused)) },
		"a protocol error":  func(c h2, stream uint32) { c.send(frameReset, 0, stream, code(codeProtocol)) },
		"an internal error": func(c h2, stream uint32) { c.send(frameReset, 0, stream, code(codeInternal)) },
		"gone away before":  func(c h2, stream uint32) { c.goAway(stream - 2) },
		"gone away and closed": func(c h2, stream uint32) {
			c.goAway(stream)
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			l, roots := listenH2(t, func(c h2) {
				for {
					stream, ok := c.next()
					switch {
					case !ok:
						return
					case requests.Add(1) == 2:
						end(c, stream)
					default:
						c.answer(stream)
					}
				}
			})
			c := newH2Client(t, l.url, roots)
			answered(t, c.post(), 201)
			lost(t, c.post(), "connection lost")
			if n := requests.Load(); n != 2 || l.arrivals.Load() != 1 {
				t.Fatalf("%d requests on %d connections, want 2 on 1", n, l.arrivals.Load())
			}
			answered(t, c.post(), 201)
		})
	}
}

// Requests share a connection, and each is proven not to have been sent, or is not, by itself.
func TestNoConnectionProvesThatNothingWasSentOnHTTP2(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	l, roots := listenH2(t, func(c h2) {
		for {
			stream, ok := c.next()
			if !ok {
				return
			}
			if stream == 1 {
				c.answer(stream)
				continue
			}
			<-held
			return // and the requests that are on it are lost
		}
	})
	c := newH2Client(t, l.url, roots)
	answered(t, c.post(), 201)
	first, second := c.inBackground(), c.inBackground()
	wait.Until(t, "two requests on their way", func() bool { return c.InFlight() == 2 })
	close(held)
	lost(t, wait.For(t, "the first reply", first), "connection lost")
	lost(t, wait.For(t, "the second reply", second), "connection lost")

	notSent(t, newH2Client(t, "https"+nobodyListens(t)[len("http"):], roots).post(), "no connection to the PSP")
	// A server that speaks no TLS is not reached either.
	plain := listen(t, func(c *net.TCPConn) { write(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	notSent(t, newH2Client(t, "https"+plain.url[len("http"):], roots).post(), "no connection to the PSP")
}

// A connection may die without a word: a firewall has forgotten it. Each request on it would be lost in turn.
func TestConnectionThatHasDiedUnseenIsFound(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	l, roots := listenH2(t, func(c h2) {
		if connections.Add(1) == 1 {
			if stream, ok := c.next(); ok {
				c.answer(stream)
			}
			hold(c.Conn.(*tls.Conn).NetConn()) // takes everything, and says nothing
			return
		}
		for {
			stream, ok := c.next()
			if !ok {
				return
			}
			c.answer(stream)
		}
	})
	c := newH2Client(t, l.url, roots, func(l *gateway.Limits) { l.Total, l.Dial = 4*time.Second, time.Second })
	answered(t, c.post(), 201)
	lost(t, c.post(), "connection lost")
	answered(t, c.post(), 201)
}
