/** Domains at which anybody can have an address: by none of these is anybody one of an org's people. */
const providers = new Set(
  `aol.com att.net bigpond.com bol.com.br btinternet.com comcast.net duck.com fastmail.com fastmail.fm free.fr freenet.de
  gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.net googlemail.com hey.com hotmail.co.uk hotmail.com hotmail.de hotmail.fr
  hushmail.com icloud.com inbox.ru laposte.net libero.it list.ru live.com live.de live.fr mac.com mail.com mail.de mail.ru
  mailbox.org me.com msn.com naver.com orange.fr outlook.com outlook.de outlook.fr pm.me posteo.de privaterelay.appleid.com
  proton.me protonmail.com qq.com rediffmail.com rocketmail.com seznam.cz sfr.fr sina.com t-online.de tuta.com tutanota.com
  uol.com.br verizon.net virgilio.it wanadoo.fr web.de wp.pl yahoo.co.in yahoo.co.jp yahoo.co.uk yahoo.com yahoo.de yahoo.fr
  yandex.com yandex.ru ymail.com yeah.net zoho.com 126.com 163.com`.split(/\s+/),
);

/** Whether the domain, in lower case, is a public mail provider's. */
export const isPublicMail = (domain: string) => providers.has(domain);

/** The domain of an address, in lower case. */
export const domainOf = (email: string) => email.slice(email.lastIndexOf("@") + 1).toLowerCase();
