#!/usr/bin/env bash
# A key that is good for one length, one header and all paths: github.com/gofiber/fiber/v3 v3.1.0 (Go), middleware
# idempotency, on its defaults.
#
# Guess: the key is any text in the header Idempotency-Key, and belongs to the request that it came with.
# Seen: - The header is X-Idempotency-Key. A client that sends Idempotency-Key is not protected, and nothing says so.
#   - A key that has not 36 characters is answered 500, "invalid idempotency key: invalid length: 7 != 36". Clients take
#     a 500 for "try again", which never helps. The form is not looked at: 36 times "k" is a key.
#   - The path is not part of the key. A refund under the key of its payment gets the answer to the payment, 201, and is
#     not executed. Another amount under the same key gets the first answer, too.
# What follows: set KeyHeader and KeyHeaderValidate, and put the path and a hash of the body into the key before the
#   middleware sees it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
go mod init example.test/shop 2>go.log
cat >main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
)

func main() {
	app := fiber.New()
	app.Use(idempotency.New())
	executed := 0
	handle := func(c fiber.Ctx) error {
		executed++
		return c.Status(201).SendString(c.Path() + " of " + string(c.Body()))
	}
	app.Post("/payments", handle)
	app.Post("/refunds", handle)
	send := func(header, key, path, body string) {
		req := httptest.NewRequest("POST", path, strings.NewReader(body))
		req.Header.Set(header, key)
		res, err := app.Test(req)
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(res.Body)
		fmt.Printf("%s, %d characters: %s of %s -> %d %s\n", header, len(key), path, body, res.StatusCode, text)
	}
	uuid := "8e03978e-40d5-43e8-bc93-6894a57f9324"
	send("X-Idempotency-Key", uuid, "/payments", "100")
	send("X-Idempotency-Key", uuid, "/payments", "100")
	send("X-Idempotency-Key", uuid, "/payments", "999")
	send("X-Idempotency-Key", uuid, "/refunds", "100")
	fmt.Println("executed", executed)
	send("X-Idempotency-Key", "order-1", "/payments", "100")
	send("X-Idempotency-Key", strings.Repeat("k", 36), "/payments", "100")
	send("Idempotency-Key", uuid, "/payments", "100")
	send("Idempotency-Key", uuid, "/payments", "100")
	fmt.Println("executed", executed)
}
GO
go get github.com/gofiber/fiber/v3@v3.1.0 >>go.log 2>&1 && go mod tidy >>go.log 2>&1 || { cat go.log; exit 1; }

go run . | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
X-Idempotency-Key, 36 characters: /payments of 100 -> 201 /payments of 100
X-Idempotency-Key, 36 characters: /payments of 100 -> 201 /payments of 100
X-Idempotency-Key, 36 characters: /payments of 999 -> 201 /payments of 100
X-Idempotency-Key, 36 characters: /refunds of 100 -> 201 /payments of 100
executed 1
X-Idempotency-Key, 7 characters: /payments of 100 -> 500 invalid idempotency key: invalid length: 7 != 36
X-Idempotency-Key, 36 characters: /payments of 100 -> 201 /payments of 100
Idempotency-Key, 36 characters: /payments of 100 -> 201 /payments of 100
Idempotency-Key, 36 characters: /payments of 100 -> 201 /payments of 100
executed 4
SEEN
echo "as it was seen: the refund was answered with the payment, and not made"
