package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

const tolerance = 300 * time.Second

var secret = []byte(os.Getenv("WEBHOOK_SECRET"))

func isAuthentic(timestamp, signature string, body []byte) bool {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(expected), []byte(signature)) {
		return false
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	return err == nil && time.Since(time.Unix(seconds, 0)).Abs() <= tolerance
}

func receive(w http.ResponseWriter, r *http.Request) {
	// The raw bytes: the signature is over these, not over parsed JSON.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	timestamp := r.Header.Get("service-timestamp")
	signature := r.Header.Get("service-signature")
	if err != nil || !isAuthentic(timestamp, signature, body) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var notification map[string]any
	if err := json.Unmarshal(body, &notification); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// Here, store notification under its service-delivery-id. Answer only then.
	w.WriteHeader(http.StatusNoContent)
}

func main() {
	if len(secret) == 0 {
		log.Fatal("WEBHOOK_SECRET is not set")
	}
	http.HandleFunc("/", receive)
	log.Fatal(http.ListenAndServe("127.0.0.1:8000", nil))
}
