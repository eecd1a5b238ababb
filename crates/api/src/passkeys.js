"use strict";
// Passkeys of the console's pages. A form with data-passkey asks the console for a challenge with its own fields, the browser for a
// passkey, and is sent with what the browser says. Without this script such forms stay hidden, and everything else works.
(() => {
  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  const created = async (options) => {
    const excludeCredentials = (options.excludeCredentials || []).map((known) => ({ ...known, id: bytes(known.id) }));
    const publicKey = {
      ...options, challenge: bytes(options.challenge), excludeCredentials, user: { ...options.user, id: bytes(options.user.id) },
    };
    const made = await navigator.credentials.create({ publicKey });
    const { response } = made;
    const transports = response.getTransports ? response.getTransports() : [];
    return {
      id: made.id, rawId: made.id, type: made.type, clientExtensionResults: {},
      response: {
        clientDataJSON: text(response.clientDataJSON), attestationObject: text(response.attestationObject), transports,
      },
    };
  };

  const found = async (options) => {
    const publicKey = { ...options, challenge: bytes(options.challenge), allowCredentials: [] };
    const key = await navigator.credentials.get({ publicKey });
    const { response } = key;
    return {
      id: key.id, rawId: key.id, type: key.type, clientExtensionResults: {},
      response: {
        clientDataJSON: text(response.clientDataJSON), authenticatorData: text(response.authenticatorData),
        signature: text(response.signature), userHandle: text(response.userHandle || new ArrayBuffer(0)),
      },
    };
  };

  const asked = async (form) => {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.dataset.challenge, { method: "POST", body });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.message || "The console did not answer. Try again.");
    return said;
  };

  const failed = (error) =>
    error instanceof DOMException
      ? error.name === "InvalidStateError"
        ? "This device has a passkey of this account already."
        : "No passkey was used: it was cancelled, or took too long."
      : error.message;

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    if (!window.PublicKeyCredential) continue;
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const problem = form.querySelector("[role=alert]");
      const button = form.querySelector("button");
      problem.hidden = true;
      button.disabled = true;
      try {
        const options = await asked(form);
        const answer = form.dataset.passkey === "create" ? await created(options) : await found(options);
        form.elements.answer.value = JSON.stringify(answer);
        form.submit();
      } catch (error) {
        problem.textContent = failed(error);
        problem.hidden = false;
        button.disabled = false;
      }
    });
  }

  // The code of an invitation stands behind the # of its link, which no server is told.
  const code = document.querySelector("input[data-code]");
  if (code && location.hash.length > 1) {
    code.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
  }
})();
