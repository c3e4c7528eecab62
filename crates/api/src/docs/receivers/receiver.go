package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	// Each notification becomes a file here, named after its delivery.
	folder    = "notifications"
	tolerance = 300 * time.Second
	// A notification has about 1 kB.
	bodyBytesMax = 64 << 10
)

var (
	secret         = []byte(os.Getenv("WEBHOOK_SECRET"))
	deliveryIDForm = regexp.MustCompile(`^[0-9a-f-]{36}$`)
)

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

// Stores a notification as a whole or not at all. False if it was stored before.
func store(deliveryID string, body []byte) (bool, error) {
	file, err := os.CreateTemp(folder, "unfinished-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.Write(body); err != nil {
		return false, err
	}
	if err := file.Sync(); err != nil {
		return false, err
	}
	err = os.Link(file.Name(), filepath.Join(folder, deliveryID+".json"))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func receive(w http.ResponseWriter, r *http.Request) int {
	// The raw bytes: the signature is over these, not over parsed JSON.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return http.StatusRequestEntityTooLarge
	}
	timestamp := r.Header.Get("service-timestamp")
	signature := r.Header.Get("service-signature")
	if err != nil || !isAuthentic(timestamp, signature, body) {
		return http.StatusBadRequest
	}
	deliveryID := r.Header.Get("service-delivery-id")
	if !deliveryIDForm.MatchString(deliveryID) {
		return http.StatusBadRequest
	}
	var notification map[string]any
	if err := json.Unmarshal(body, &notification); err != nil {
		return http.StatusBadRequest
	}
	isNew, err := store(deliveryID, body)
	if err != nil {
		log.Print(err)
		return http.StatusInternalServerError
	}
	if isNew {
		// New, and safe on disk. Leave what takes long to another process.
		fmt.Println("settlement", notification["settlement_id"])
	}
	return http.StatusNoContent
}

func main() {
	if len(secret) == 0 {
		log.Fatal("WEBHOOK_SECRET is not set")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		log.Fatal(err)
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8000"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on port", listener.Addr().(*net.TCPAddr).Port)
	handler := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(receive(w, r)) }
	server := &http.Server{Handler: http.HandlerFunc(handler), ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
