package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const (
	maxHeadLines = 100
	maxQuoted    = 1 << 10 // bytes of an answer that is quoted
	untilClosed  = -1
	inChunks     = -2
)

// head is what an answer says before its body.
type head struct {
	status int
	length int64 // of the body, or one of untilClosed and inChunks
	closes bool  // the connection serves no other request
}

var errHead = errors.New("answer is not HTTP/1.1")

// readHead reads as far as the body.
func readHead(r *bufio.Reader) (head, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return head{}, err
	}
	const statusAt, statusEnd = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(line) < statusEnd || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return head{}, errHead
	}
	status, err := strconv.Atoi(string(line[statusAt:statusEnd]))
	if err != nil || status < http.StatusOK || status > maxStatus {
		return head{}, errHead
	}
	h := head{status: status, length: untilClosed}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		h.length = 0
	}
	for range maxHeadLines {
		line, err := r.ReadSlice('\n')
		switch {
		case err != nil:
			return head{}, unexpectedEnd(err)
		case len(line) <= len("\r\n"):
			h.closes = h.closes || h.length == untilClosed
			return h, nil
		}
		if err := h.note(line); err != nil {
			return head{}, err
		}
	}
	return head{}, errHead
}

// note takes what a line says of where the answer ends.
func (h *head) note(line []byte) error {
	if value, ok := valueOf(line, "content-length:"); ok && h.length != inChunks {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 {
			return errHead
		}
		h.length = n
	} else if value, ok := valueOf(line, "transfer-encoding:"); ok && bytes.EqualFold(value, []byte("chunked")) {
		h.length = inChunks
	} else if value, ok := valueOf(line, "connection:"); ok && bytes.EqualFold(value, []byte("close")) {
		h.closes = true
	}
	return nil
}

// valueOf compares the first letter by hand: most lines are none that we want.
func valueOf(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || line[0]|0x20 != name[0] || !strings.EqualFold(string(line[:len(name)]), name) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}

// readBody reads the body to its end. What of it fits is put into quote, which may be nil.
func (h head) readBody(r *bufio.Reader, quote *strings.Builder) error {
	switch h.length {
	case untilClosed:
		return pass(r, 1<<62, quote, true)
	case inChunks:
		return passChunks(r, quote)
	}
	return pass(r, h.length, quote, false)
}

func passChunks(r *bufio.Reader, quote *strings.Builder) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return unexpectedEnd(err)
		}
		size, _, _ := strings.Cut(string(bytes.TrimSpace(line)), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: a chunk without a size", errHead)
		}
		if n > 0 {
			if err := pass(r, n, quote, false); err != nil {
				return err
			}
		}
		// The line end of the chunk; after the last one, trailers until an empty line.
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return unexpectedEnd(err)
			}
			if n > 0 || len(line) <= len("\r\n") {
				break
			}
		}
		if n == 0 {
			return nil
		}
	}
}

// pass reads n bytes, and quotes the first of them.
func pass(r *bufio.Reader, n int64, quote *strings.Builder, mayEnd bool) error {
	for n > 0 {
		if _, err := r.Peek(1); err != nil {
			if mayEnd && errors.Is(err, io.EOF) {
				return nil
			}
			return unexpectedEnd(err)
		}
		part, _ := r.Peek(int(min(n, int64(r.Buffered()))))
		if quote != nil {
			quote.Write(part[:min(len(part), max(0, maxQuoted-quote.Len()))])
		}
		n -= int64(len(part))
		if _, err := r.Discard(len(part)); err != nil {
			return err
		}
	}
	return nil
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
