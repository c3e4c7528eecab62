<?php

declare(strict_types=1);

// Each notification becomes a file here, named after its delivery. Keep it out of what your server serves.
const FOLDER = 'notifications';
const TOLERANCE_SECONDS = 300;
// A notification has about 1 kB.
const BODY_BYTES_MAX = 64 * 1024;

function is_authentic(string $secret, string $timestamp, string $signature, string $body): bool
{
    $expected = 'sha256=' . hash_hmac('sha256', $timestamp . '.' . $body, $secret);
    return hash_equals($expected, $signature)
        && abs(time() - (int) $timestamp) <= TOLERANCE_SECONDS;
}

// Stores a notification as a whole or not at all. False if it was stored before.
function store(string $delivery_id, string $body): bool
{
    $unfinished = tempnam(FOLDER, 'unfinished-');
    $stored = FOLDER . "/$delivery_id.json";
    try {
        $file = fopen($unfinished, 'wb');
        if (fwrite($file, $body) !== strlen($body) || !fsync($file)) {
            throw new RuntimeException("cannot write $unfinished");
        }
        if (@link($unfinished, $stored)) {
            return true;
        }
        return file_exists($stored) ? false : throw new RuntimeException("cannot write $stored");
    } finally {
        unlink($unfinished);
    }
}

function receive(string $secret): int
{
    // The raw bytes: the signature is over these, not over parsed JSON.
    $body = (string) file_get_contents('php://input', length: BODY_BYTES_MAX + 1);
    if (strlen($body) > BODY_BYTES_MAX || (int) ($_SERVER['CONTENT_LENGTH'] ?? 0) > BODY_BYTES_MAX) {
        return 413;
    }
    $timestamp = $_SERVER['HTTP_SERVICE_TIMESTAMP'] ?? '';
    $signature = $_SERVER['HTTP_SERVICE_SIGNATURE'] ?? '';
    if (!is_authentic($secret, $timestamp, $signature, $body)) {
        return 400;
    }
    $delivery_id = $_SERVER['HTTP_SERVICE_DELIVERY_ID'] ?? '';
    if (!preg_match('/^[0-9a-f-]{36}$/D', $delivery_id)) {
        return 400;
    }
    $notification = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
    if (store($delivery_id, $body)) {
        // New, and safe on disk. Leave what takes long to another process.
        error_log("settlement {$notification['settlement_id']}");
    }
    return 204;
}

// What fails on the way must never be answered with 2xx.
http_response_code(500);
$secret = getenv('WEBHOOK_SECRET') ?: throw new RuntimeException('WEBHOOK_SECRET is not set');
if (!is_dir(FOLDER)) {
    mkdir(FOLDER, 0700);
}
http_response_code(receive($secret));
