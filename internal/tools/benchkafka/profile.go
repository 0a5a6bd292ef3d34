package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// profileTo takes a CPU profile of rsmhost while read runs, over its admin endpoint.
func (r *rsmhost) profileTo(ctx context.Context, file string, read func() error) error {
	admin, err := r.adminAddress()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = download(ctx, "http://"+admin+"/debug/pprof/profile?seconds=10", file) }) // ends after ten seconds; waited for below
	err = read()
	wg.Wait()
	if err != nil {
		return err
	}
	return failed
}

// adminAddress finds where the admin endpoint listens in what rsmhost wrote to stderr.
func (r *rsmhost) adminAddress() (string, error) {
	f, err := os.Open(r.stderr.Name())
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if _, rest, ok := strings.Cut(s.Text(), "http://"); ok {
			address, _, _ := strings.Cut(rest, "/")
			return address, nil
		}
	}
	return "", fmt.Errorf("rsmhost does not say where its admin endpoint is")
}

func download(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
