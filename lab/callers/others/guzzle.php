<?php
// Guzzle with its own retry middleware, which repeats what it is told to: what is lost and 5xx, in most examples.
require 'pay.php';
require '/usr/share/php/GuzzleHttp/autoload.php';
$most = getenv('SET') ? 5 : 3;
$statuses = getenv('SET') ? [409, 429, 500, 502, 503, 504] : [500, 502, 503, 504];
$decide = fn($tries, $request, $answer, $error) => $tries < $most
    && ($error !== null || in_array($answer->getStatusCode(), $statuses));
$stack = GuzzleHttp\HandlerStack::create();
$stack->push(GuzzleHttp\Middleware::retry($decide));
$client = new GuzzleHttp\Client(['handler' => $stack, 'http_errors' => false]);
pay_all((string) GuzzleHttp\Client::MAJOR_VERSION, function ($url, $headers, $body) use ($client) {
    $answer = $client->post($url, ['headers' => $headers, 'body' => $body]);
    return [$answer->getStatusCode(), (string) $answer->getBody()];
});
