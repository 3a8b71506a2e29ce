"""The words of a page without a parser."""

from tidings.web.extract.html.read import plain_text


def test_tags_go_and_words_stay() -> None:
    body = b"<html><head><title>T</title></head><body><h1>One &amp; <b>two</b></h1><p>three<br>four</body>"
    assert plain_text(body) == "One & two\nthree\nfour"


def test_scripts_styles_and_comments_are_left_out() -> None:
    body = b"a<script>if (x < y) z()</script>b<style>p{}</style>c<!-- <p>no</p> -->d<?php x ?>e<!doctype html>f"
    assert plain_text(body).split() == list("abcdef")


def test_what_never_ends_is_looked_for_once() -> None:
    body = b"<script>x" * 50_000 + b"<!-- y" * 50_000
    assert plain_text(body).startswith("x\nx")


def test_no_more_than_asked_for_is_returned() -> None:
    assert plain_text(b"<p>word" * 100_000, most=100) == ("word\n" * 20)
    assert plain_text(b"word " * 100, most=7) == "word wo"
