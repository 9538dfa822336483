// The token of the printed address: a browser that has it may change something. Browsers do not send what follows the #.

const KEY = "token";

function take() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return false;
  localStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

take();
// The address of a page that was started again, opened where the old one is still shown.
addEventListener("hashchange", () => {
  if (take()) location.reload();
});

/** Send a change; its answer, or an Error with a sentence. */
export async function post(path, body) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-tidelog-token": localStorage.getItem(KEY) ?? "" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error("The page's process does not answer.");
  }
  const text = await response.text();
  let answer = {};
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text.trim() };
  }
  if (!response.ok) throw new Error(answer.error || "That failed.");
  return answer;
}
