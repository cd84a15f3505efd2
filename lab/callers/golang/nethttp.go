package main

import (
	"net/http"
	"strings"
)

// netHTTP sends once; on a used connection that breaks, the transport sends again by itself, because there is an
// Idempotency-Key.
func netHTTP() pay {
	return pay{"", func(url, body string, header http.Header) (*http.Response, error) {
		request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header = header
		return http.DefaultClient.Do(request)
	}}
}
